#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ask/compare/compare_words.h"
#include "ask/compare/input_checks.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// An op of the optimizer reads a state that one of the two keeps from before the step and the other one makes anew.
std::string_view state_made_anew(const CompareFacts& facts, const CompareInput& made, bool in_golden,
                                 const CompareInput& kept) {
  if (made.from == kNoOp || kept.from != kNoOp || kept.tensor->constant) return "";
  if (phase_of(*facts.side(in_golden).ops[made.from].op) != Phase::optimizer) return "";
  const bool has_counterpart =
      in_golden ? facts.pairs.is_promised(made.from) : facts.pairs.match_of(made.from).golden != kNoOp;
  if (has_counterpart || facts.names.of_state(kept.tensor->parameter).empty()) return "";
  return kept.tensor->parameter;
}

// All of them, by the kind of state: "step, exp_avg, exp_avg_sq of 4 parameters".
std::string states_made_anew(const CompareFacts& facts, bool in_target) {
  std::vector<std::string_view> kinds;
  std::set<std::string_view> parameters;
  for (std::uint32_t t = 0; t < facts.pairs.size(); ++t) {
    if (facts.pairs.match_of(t).golden == kNoOp || phase_of(*facts.target.ops[t].op) != Phase::optimizer) continue;
    for (const CompareInput& mine : facts.target.ops[t].inputs) {
      for (const CompareInput& theirs : facts.golden.ops[facts.pairs.match_of(t).golden].inputs) {
        if (mine.tensor->slot != theirs.tensor->slot) continue;
        const std::string_view name =
            in_target ? state_made_anew(facts, mine, false, theirs) : state_made_anew(facts, theirs, true, mine);
        if (name.empty()) continue;
        const std::string_view parameter = facts.names.of_state(name);
        parameters.insert(parameter);
        const std::string_view kind = name.substr(0, name.size() - parameter.size() - 1);
        if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
      }
    }
  }
  const std::string_view plural = parameters.size() == 1 ? "parameter" : "parameters";
  return fmt::format("{} of {} {}", fmt::join(kinds, ", "), parameters.size(), plural);
}

}  // namespace

bool report_new_state(const CompareFacts& facts, StepFindings& findings, const ComparedOp& op, const PairedInput& input,
                      ComparedTensor& shown) {
  if (phase_of(*op.target.front()) != Phase::optimizer) return false;
  const CompareInput &mine = *input.target.input, &theirs = *input.golden.input;
  const bool in_target = mine.from != kNoOp;
  const std::string_view name =
      in_target ? state_made_anew(facts, mine, false, theirs) : state_made_anew(facts, theirs, true, mine);
  if (name.empty()) return false;
  shown.beyond = true;
  if (!findings.is_new_name(name)) return true;
  const std::string numbers = difference_text(FindingKind::parameter, shown);
  const std::string_view makes = in_target ? "the target makes it anew in this step and the golden run keeps it"
                                           : "the target keeps it and the golden run makes it anew in this step";
  findings.add(FindingKind::parameter, op, op.target.front(), false, &shown,
               fmt::format("{}; {} ({})", numbers, makes, states_made_anew(facts, in_target)));
  return true;
}

}  // namespace sonde
