#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dump.h"
#include "face/report/plan_text.h"
#include "plan/config/plan.h"
#include "verbs.h"

namespace sonde {
namespace {

// "local ranks: 0 to 7 record; 8 to 15 do not: support_device lists 0, 1, …"
std::string local_ranks(const Plan& plan, std::uint64_t count) {
  if (count == 0) return "";
  std::vector<std::uint64_t> left_out;
  for (std::uint64_t rank = 0; rank < count; ++rank) {
    if (!plan.supports_device(rank)) left_out.push_back(rank);
  }
  if (left_out.empty()) return fmt::format("local ranks: all {} record\n", count);
  return fmt::format("local ranks: {} of {} record; not {}, support_device does not list them\n",
                     count - left_out.size(), count, fmt::join(left_out, ", "));
}

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
  answer.plan = describe(*result.plan) + local_ranks(*result.plan, options.local_ranks);
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
    if (result.plan) print_text(describe(*result.plan) + local_ranks(*result.plan, options.local_ranks));
  }
  return result.plan ? kNothingFound : kBadUsage;
}

}  // namespace sonde
