#include "check.h"

#include <memory>
#include <string>

#include "dump.h"
#include "face/report/plan_text.h"
#include "plan/config/plan.h"

namespace sonde {
namespace {

constexpr const char* kFooter =
    "Exit status: 0 the file can be used (warnings included), 2 it cannot.\n"
    "Example: sonde check /abs/data_dump.json";

struct CheckOptions {
  std::string file;
  bool json = false;
};

Json json_of(const Diagnostic& diagnostic) {
  return {{"severity", diagnostic.is_error ? "error" : "warning"},
          {"line", diagnostic.line},
          {"key", diagnostic.key},
          {"message", diagnostic.message}};
}

void answer(const CheckOptions& options, const PlanResult& result) {
  Json diagnostics = Json::array();
  for (const Diagnostic& diagnostic : result.diagnostics) diagnostics.push_back(json_of(diagnostic));
  Answer::get().add({{"file", options.file}, {"ok", result.plan.has_value()}, {"diagnostics", diagnostics}});
  if (!result.plan) {
    Answer::get().note_error("the configuration cannot be used");
    return;
  }
  Answer::get().add(
      {{"dialect", result.plan->dialect}, {"path", result.plan->path.string()}, {"plan", describe(*result.plan)}});
}

int check(const CheckOptions& options) {
  const PlanResult result = read_plan(options.file);
  if (options.json) {
    answer(options, result);
  } else {
    for (const Diagnostic& diagnostic : result.diagnostics) print_diagnostic(diagnostic, options.file);
    if (result.plan) print_text(describe(*result.plan));
  }
  return result.plan ? kNothingFound : kBadUsage;
}

}  // namespace

void add_check(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* verb =
      app.add_subcommand("check", "Explain in plain words the content that a configuration records, or its errors.");
  verb->add_option("FILE", options->file, "configuration file, in any form that MINDSPORE_DUMP_CONFIG accepts")
      ->required();
  add_json_options(*verb, options->json);
  verb->footer(kFooter);
  verb->callback([options, &exit_status] { exit_status = check(*options); });
}

}  // namespace sonde
