#include <memory>
#include <string>

#include "dump.h"
#include "face/report/plan_text.h"
#include "plan/config/plan.h"
#include "verbs.h"

namespace sonde {
namespace {

Json json_of(const Diagnostic& diagnostic) {
  return {{"severity", diagnostic.is_error ? "error" : "warning"},
          {"line", diagnostic.line},
          {"key", diagnostic.key},
          {"message", diagnostic.message}};
}

void answer(const CheckCommand& options, const PlanResult& result) {
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

}  // namespace

int check(const CheckCommand& options) {
  const PlanResult result = read_plan(options.file);
  if (options.json) {
    answer(options, result);
  } else {
    for (const Diagnostic& diagnostic : result.diagnostics) print_diagnostic(diagnostic, options.file);
    if (result.plan) print_text(describe(*result.plan));
  }
  return result.plan ? kNothingFound : kBadUsage;
}

}  // namespace sonde
