#include "check.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "sonde/plan.h"

namespace sonde {
namespace {

constexpr int kBadUsage = 2;

constexpr const char* kFooter =
    "Exit status: 0 the file can be used (warnings included), 2 it cannot.\n"
    "Example: sonde check /abs/data_dump.json";

struct CheckOptions {
  std::string file;
  bool json = false;
};

nlohmann::json json_of(const Diagnostic& diagnostic) {
  return {{"severity", diagnostic.is_error ? "error" : "warning"},
          {"line", diagnostic.line},
          {"key", diagnostic.key},
          {"message", diagnostic.message}};
}

// One object; bytes that are not UTF-8 (in a file's name) are replaced.
void print_json(const CheckOptions& options, const PlanResult& result) {
  nlohmann::json report = {
      {"file", options.file}, {"ok", result.plan.has_value()}, {"diagnostics", nlohmann::json::array()}};
  for (const Diagnostic& diagnostic : result.diagnostics) {
    report["diagnostics"].push_back(json_of(diagnostic));
  }
  if (result.plan) {
    report["dialect"] = result.plan->dialect;
    report["path"] = result.plan->path.string();
    report["plan"] = describe(*result.plan);
  }
  fmt::print("{}\n", report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

int check(const CheckOptions& options) {
  const PlanResult result = read_plan(options.file);
  if (options.json) {
    print_json(options, result);
  } else {
    for (const Diagnostic& diagnostic : result.diagnostics) {
      fmt::print(stderr, "{}\n", text_of(diagnostic, options.file));
    }
    if (result.plan) fmt::print("{}", describe(*result.plan));
  }
  return result.plan ? 0 : kBadUsage;
}

}  // namespace

void add_check(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* verb =
      app.add_subcommand("check", "Say in plain words what a configuration records, or what is wrong with it.");
  verb->add_option("FILE", options->file, "configuration file, as MINDSPORE_DUMP_CONFIG names it")->required();
  verb->add_flag("--json", options->json, "one JSON object instead of text");
  verb->footer(kFooter);
  verb->callback([options, &exit_status] { exit_status = check(*options); });
}

}  // namespace sonde
