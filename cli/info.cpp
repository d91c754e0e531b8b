#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "child.h"
#include "dump.h"
#include "face/report/plan_text.h"
#include "face/report/text.h"
#include "ground/base/json.h"
#include "ground/base/text.h"
#include "ground/stats/cpu_features.h"
#include "ground/stats/statistics.h"
#include "plan/config/environment.h"
#include "plan/config/plan.h"
#include "verbs.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

struct Variable {
  const char* name;
  const char* meaning;
};
constexpr std::array kVariables = {
    Variable{"SONDE_CONFIG", "configuration file of any dialect; wins over the next"},
    Variable{"MINDSPORE_DUMP_CONFIG", "configuration file in MindSpore's dialect"},
    Variable{"SONDE_OFF", "1: Sonde leaves the program alone, whatever the two say"},
    Variable{"SONDE_WARM_UP", "1: warm-up runs of a serving engine are recorded too"},
    Variable{"MS_DIAGNOSTIC_DATA_PATH", "where to write when the configuration has no path (debug_dump in it)"},
    Variable{"RANK", "number of this process in a distributed training"},
    Variable{"RANK_ID", "the same, as MindSpore calls it"},
    Variable{"SONDE_KERNEL", "forces one kernel of the statistics, as scalar"},
    Variable{"TORCH_DEVICE_BACKEND_AUTOLOAD", "0: PyTorch starts no extension, so neither Sonde"},
    Variable{"CXX", "compiler for the adapter of PyTorch, when one must be built"},
    Variable{"XDG_CACHE_HOME", "where adapters built on first use are kept (sonde in it)"},
};

std::string compiler() {
#if defined(__clang__)
  return __VERSION__;  // begins with its name
#else
  return std::string("g++ ") + __VERSION__;
#endif
}

std::vector<NamedValue<std::string>> libraries() {
  return {{"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH)},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"cli11", CLI11_VERSION},
          {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)}};
}

std::vector<NamedValue<std::string>> variables() {
  std::vector<NamedValue<std::string>> set;
  for (const Variable& variable : kVariables) {
    if (const char* value = std::getenv(variable.name)) set.push_back({variable.name, value});
  }
  return set;
}

// The output of `python -m sonde.adapter status`; "problem" if there is none.
Json python_facts(const std::string& python) {
  const Result<std::string> answer = ask_child(python_command(python, kAdapterProgram, {"status"}), python_setting());
  if (answer) {
    Json facts = json_of_text(*answer);
    if (facts.is_object()) return facts;
  }
  Json facts = {{"executable", python}};
  facts["problem"] = !answer && answer.error().code == ErrorCode::not_found
                         ? answer.error().message
                         : "the package sonde is not installed in it, or cannot be loaded; try "
                           "'cd / && " +
                               python + " -m sonde.adapter status'";
  return facts;
}

// The plan that a program started here would record by.
std::optional<NamedPlan> named_plan() {
  const std::string file = configuration_of_environment();
  if (file.empty()) return std::nullopt;
  const PlanResult result = read_plan(file);
  return NamedPlan{file, result.plan.has_value(), result.plan ? limits(*result.plan) : ""};
}

Info all_facts(const Json& python) {
  Info info;
  info.version = SONDE_VERSION;
  info.compiler = compiler();
  info.kernel = kernel_name();
  for (const auto& feature : cpu_features()) info.cpu_features.emplace_back(feature);
  info.cores = std::thread::hardware_concurrency();
  info.libraries = libraries();
  info.python.text = text_of_json(python);
  info.environment = variables();
  info.plan = named_plan();
  return info;
}

std::string row(std::string_view name, std::string_view value) {
  return fmt::format("{:<13} {}\n", name, printable(value));
}

// Below a row's value.
std::string rows_below(std::string_view lines) {
  std::string text;
  for (const std::string_view line : split(lines, '\n')) {
    if (!line.empty()) text += row("", line);
  }
  return text;
}

std::string text_of(const Info& info, const Json& python) {
  std::string text = row("version", info.version);
  text += row("compiler", info.compiler);
  text += row("kernel", info.kernel);
  text += row("cpu features", info.cpu_features.empty() ? "none known" : joined(info.cpu_features, " "));
  text += row("cores", std::to_string(info.cores));
  std::vector<std::string> libraries;
  for (const auto& [name, version] : info.libraries) libraries.push_back(name + " " + version);
  text += row("libraries", joined(libraries, ", "));
  text += row("python", python.value("executable", "") +
                            (python.contains("python") ? " (" + python.value("python", "") + ")" : ""));
  for (const char* fact : {"torch", "adapter", "distribution", "problem"}) {
    if (python.contains(fact)) text += row(fact, python.value(fact, ""));
  }
  if (info.plan) {
    text += row("plan", info.plan->file);
    text +=
        info.plan->ok ? rows_below(info.plan->limits) : row("", "cannot be used; see: sonde check " + info.plan->file);
  }
  text += "environment\n";
  for (const Variable& variable : kVariables) {
    const auto found = std::ranges::find(info.environment, variable.name, &NamedValue<std::string>::name);
    const std::string value = found == info.environment.end() ? "(not set)" : found->value;
    text += fmt::format("  {:<29} {}\n  {:<29}   {}\n", variable.name, printable(value), "", variable.meaning);
  }
  return text;
}

}  // namespace

int info(const InfoCommand& options) {
  if (const std::string complaint = kernel_complaint(); !complaint.empty()) print_warning(complaint);
  const Json python = python_facts(options.python.empty() ? default_python() : options.python);
  const Info info = all_facts(python);
  if (options.json) {
    Answer::get().add(info);
  } else {
    print_text(text_of(info, python));
  }
  return kNothingFound;
}

}  // namespace sonde
