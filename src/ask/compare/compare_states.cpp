// States that an optimizer keeps for a parameter: `exp_avg.fc.weight`, `step.fc.weight`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ask/compare/compare_step.h"
#include "ask/compare/compare_words.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// `fc.weight` of `exp_avg.fc.weight`, the longest that is a parameter; empty: of none.
std::string_view parameter_of(std::string_view state, const std::set<std::string_view>& parameters) {
  for (std::size_t dot = state.find('.'); dot != std::string_view::npos; dot = state.find('.', dot + 1)) {
    const std::string_view rest = state.substr(dot + 1);
    if (parameters.contains(rest)) return rest;
  }
  return "";
}

}  // namespace

std::string_view StepComparer::parameter_of_state(std::string_view name) const {
  const std::string_view golden = parameter_of(name, golden_names_);
  return golden.empty() ? parameter_of(name, target_names_) : golden;
}

// "state exp_avg of fc.weight"; empty: it is not the state of an optimizer.
std::string StepComparer::state_text(std::string_view name) const {
  const std::string_view parameter = parameter_of_state(name);
  if (parameter.empty()) return "";
  return fmt::format("state {} of {}", name.substr(0, name.size() - parameter.size() - 1), parameter);
}

// An op of the optimizer reads a state that one of the two keeps from before the step and the other one makes anew.
std::string_view StepComparer::state_made_anew(const CompareInput& made, const CompareSide& side,
                                               const CompareInput& kept) const {
  if (made.from == kNoOp || kept.from != kNoOp || kept.tensor->constant) return "";
  if (phase_of(*side.ops[made.from].op) != Phase::optimizer) return "";
  const bool has_counterpart = &side == &golden_ ? promised_[made.from] : matches_[made.from].golden != kNoOp;
  return has_counterpart || state_text(kept.tensor->parameter).empty() ? "" : kept.tensor->parameter;
}

// All of them, by the kind of state: "step, exp_avg, exp_avg_sq of 4 parameters".
std::string StepComparer::states_made_anew(bool in_target) const {
  std::vector<std::string_view> kinds;
  std::set<std::string_view> parameters;
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    if (matches_[t].golden == kNoOp || phase_of(*target_.ops[t].op) != Phase::optimizer) continue;
    for (const CompareInput& mine : target_.ops[t].inputs) {
      for (const CompareInput& theirs : golden_.ops[matches_[t].golden].inputs) {
        if (mine.tensor->slot != theirs.tensor->slot) continue;
        const std::string_view name =
            in_target ? state_made_anew(mine, target_, theirs) : state_made_anew(theirs, golden_, mine);
        if (name.empty()) continue;
        const std::string_view parameter = parameter_of_state(name);
        parameters.insert(parameter);
        const std::string_view kind = name.substr(0, name.size() - parameter.size() - 1);
        if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
      }
    }
  }
  const std::string_view plural = parameters.size() == 1 ? "parameter" : "parameters";
  return fmt::format("{} of {} {}", fmt::join(kinds, ", "), parameters.size(), plural);
}

// A new optimizer beside one that has gone on, after a checkpoint that lacks its state: named as the state, not as the
// ops that fill it with zeros. True if it is one.
bool StepComparer::report_new_state(const ComparedOp& op, const PairedInput& input, ComparedTensor& shown) {
  if (phase_of(*op.target.front()) != Phase::optimizer) return false;
  const CompareInput &mine = *input.target.input, &theirs = *input.golden.input;
  const bool in_target = mine.from != kNoOp;
  const std::string_view name =
      in_target ? state_made_anew(mine, target_, theirs) : state_made_anew(theirs, golden_, mine);
  if (name.empty()) return false;
  shown.beyond = true;
  if (!reported_names_.insert(name).second) return true;
  const std::string numbers = difference_text(FindingKind::parameter, shown);
  const std::string_view makes = in_target ? "the target makes it anew in this step and the golden run keeps it"
                                           : "the target keeps it and the golden run makes it anew in this step";
  add_finding(FindingKind::parameter, op, op.target.front(), false, &shown,
              fmt::format("{}; {} ({})", numbers, makes, states_made_anew(in_target)));
  return true;
}

}  // namespace sonde
