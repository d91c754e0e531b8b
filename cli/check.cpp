
#include "dump.h"
#include "face/report/plan_text.h"
#include "plan/config/plan.h"
#include "verbs.h"

namespace sonde {
namespace {

Check answer_of(const CheckCommand& options, const PlanResult& result) {
  Check answer;
  answer.file = options.file;
  answer.ok = result.plan.has_value();
  for (const Diagnostic& diagnostic : result.diagnostics) {
    Remark& remark = answer.diagnostics.emplace_back();
    remark.severity = diagnostic.is_error ? RemarkSeverity::error : RemarkSeverity::warning;
    remark.line = diagnostic.line;
    remark.key = diagnostic.key;
    remark.message = diagnostic.message;
  }
  if (!result.plan) return answer;
  answer.dialect = result.plan->dialect;
  answer.path = result.plan->path.string();
  answer.plan = describe(*result.plan);
  return answer;
}

}  // namespace

int check(const CheckCommand& options) {
  const PlanResult result = read_plan(options.file);
  if (options.json) {
    Answer::get().add(answer_of(options, result));
    if (!result.plan) Answer::get().note_error("the configuration cannot be used");
  } else {
    for (const Diagnostic& diagnostic : result.diagnostics) print_diagnostic(diagnostic, options.file);
    if (result.plan) print_text(describe(*result.plan));
  }
  return result.plan ? kNothingFound : kBadUsage;
}

}  // namespace sonde
