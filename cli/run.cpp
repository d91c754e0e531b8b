#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "child.h"
#include "dump.h"
#include "ground/base/clock.h"
#include "ground/files/scratch.h"
#include "native_program.h"
#include "plan/config/environment.h"
#include "plan/config/plan.h"
#include "prove.h"
#include "run_alerts.h"
#include "run_report.h"
#include "sonde/configuration.h"
#include "verbs.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kUsualStatistics = {
    "max", "min", "avg", "l2norm", "nan count", "positive inf count", "negative inf count"};

Configuration settings_of(const RunCommand& options) {
  Configuration made;
  made.path = fs::absolute(options.out).lexically_normal();
  made.iteration = options.iteration;
  made.saved_data = options.saved_data;
  made.kernels = options.kernels;
  made.requests = options.requests;
  if (options.saved_data != "tensor") {
    made.statistics = options.statistics.empty() ? kUsualStatistics : options.statistics;
  }
  return made;
}

// The configuration to use: --config, otherwise one made from --out, otherwise the one that the environment names.
std::optional<fs::path> choose_config(const RunCommand& options, const fs::path& scratch) {
  if (!options.config.empty()) return fs::absolute(options.config);
  if (!options.out.empty()) {
    const fs::path made = scratch / "data_dump.json";
    std::ofstream(made) << text_of(settings_of(options));
    return made;
  }
  if (const std::string named = configuration_of_environment(); !named.empty()) return named;
  return std::nullopt;
}

// Reports all diagnostics of the file; returns the plan if it can be used.
std::optional<Plan> checked_plan(const fs::path& config, const RunCommand& options) {
  PlanResult result = read_plan(config);
  const fs::path shown = options.out.empty() ? config : fs::path("--out");
  for (const Diagnostic& diagnostic : result.diagnostics) print_diagnostic(diagnostic, shown);
  return std::move(result.plan);
}

// A second run is added to the first, and its reader sees the values of both.
void warn_of_earlier_run(const fs::path& dump) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(dump, none)) {
    if (!entry.path().filename().string().starts_with("rank_")) continue;
    print_warning(
        fmt::format("'{}' contains an earlier run; this one is added to it, and first-bad and compare read both; "
                    "name a new directory to keep them apart",
                    dump.string()));
    return;
  }
}

// For a shell.
std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

// The program has the configuration itself: torchair.CompilerConfig. Its messages go to stderr.
int run_by_itself(const std::vector<std::string>& command) {
  const Result<ChildEnd> end = run_child(command, {.environment = {}, .without = {}, .output = {}});
  if (end) return end->exit_code;
  return status_of_no_run(end.error());
}

}  // namespace

int run(const RunCommand& options) {
  if (options.npu_stand_in) setenv("SONDE_NPU_STAND_IN", "1", 1);  // for every process of the run
  if (const auto wrong = what_is_wrong_with_alerts(options)) {
    print_error(*wrong);
    return kBadUsage;
  }
  const Scratch scratch;
  if (scratch.path().empty()) {
    print_error("cannot make a directory in TMPDIR or /tmp; set TMPDIR to a directory that can be written");
    return kCannotRun;
  }
  const std::optional<fs::path> config = choose_config(options, scratch.path());
  if (!config && options.npu_stand_in) return run_by_itself(options.command);
  if (!config) {
    print_error("nothing is selected to be recorded; give --config FILE or --out DIRECTORY");
    return kBadUsage;
  }
  const std::optional<Plan> plan = checked_plan(*config, options);
  if (!plan) return kBadUsage;
  if (options.prove) return prove({options.command, *config, plan->path, scratch.path(), options.json});
  if (!options.out.empty()) warn_of_earlier_run(plan->path);
  const fs::path report = scratch.path() / "report";
  std::vector<std::pair<std::string, std::string>> environment = {{"SONDE_CONFIG", config->string()},
                                                                  {"SONDE_RUN_REPORT", report.string()}};
  environment.emplace_back("SONDE_COMMAND", command_text(options.command));
  environment.emplace_back("SONDE_LAUNCH", fmt::format("{}-{}", ::getpid(), now_us()));
  if (!options.out.empty()) environment.emplace_back("SONDE_EVERY_DEVICE", "1");
  if (options.stop_after) environment.emplace_back("SONDE_STOP_AFTER", "1");
  if (auto preload = preload_for(options.command, scratch.path())) environment.emplace_back("LD_PRELOAD", *preload);
  const Result<ChildEnd> end = [&] {
    const Alerts alerts(options, plan->path);
    return run_child(options.command, {.environment = environment, .without = {}, .output = {}});
  }();
  if (!end) return status_of_no_run(end.error());
  print_run_report(fs::path(options.command[0]).filename().string(), *end, report, plan->path);
  return end->exit_code;
}

}  // namespace sonde
