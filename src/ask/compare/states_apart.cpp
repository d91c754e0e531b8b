#include <fmt/format.h>

#include <limits>
#include <map>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "ask/compare/left_out.h"
#include "ask/compare/tolerance.h"

namespace sonde {
namespace {

using StatesBefore = std::map<std::string_view, const CatalogTensor*>;

// By name: what the optimizer finds in the states that it keeps.
StatesBefore states_before(const CompareSide& side) {
  StatesBefore found;
  for (const CompareOp& op : side.ops) {
    if (phase_of(*op.op) != Phase::optimizer) continue;
    for (const CompareInput& input : op.inputs) {
      if (input.from == kNoOp && !input.name.empty()) found.try_emplace(input.name, input.tensor);
    }
  }
  return found;
}

// A part of what the golden step changes: a state that begins as zeros changes as a whole.
Bound bound_of_state(const CompareFacts& facts, const TensorDifference& left, const CatalogTensor* golden,
                     const CatalogTensor* before) {
  Bound bound = allowance_of_parameter(left, facts.seen.now, facts.options.tolerance);
  double change = left.rms;
  if (before != nullptr) {
    const TensorDifference& update = facts.differences.of(facts.of_golden(golden), facts.of_golden(before));
    if (update.comparable() && update.by != ComparedBy::checksum) change = update.rms_error;
  }
  bound.rms += kUnseenOfUpdate * change;
  bound.max = std::numeric_limits<double>::infinity();  // a tiny gradient has another sign
  return bound;
}

}  // namespace

void find_states_apart(const CompareFacts& facts, StepFindings& findings) {
  if (!facts.pairs.have_other_optimizers() || !findings.empty() || facts.history.found) return;
  const StatesBefore before = states_before(facts.golden);
  for (const auto& [name, theirs] : facts.golden.written) {
    const auto mine = facts.target.written.find(name);
    if (facts.names.of_state(name).empty() || mine == facts.target.written.end()) continue;
    const ComparedOp* op = facts.pairs.of_target(mine->second.op);
    if (op == nullptr || phase_of(*op->target.front()) != Phase::optimizer) continue;
    const TensorDifference& left = facts.difference(mine->second.output, theirs.output);
    if (!left.comparable() || left.by == ComparedBy::checksum) continue;
    const auto was = before.find(name);
    if (!is_beyond(left, bound_of_state(facts, left, theirs.output, was == before.end() ? nullptr : was->second)))
      continue;
    const ComparedTensor shown{mine->second.output, theirs.output, &left, {}, true, ""};
    findings.add(FindingKind::changed, *op, op->target.back(), false, nullptr,
                 fmt::format("leaves another {}: {}; in the golden dump {} writes it", facts.names.state_text(name),
                             difference_text(FindingKind::changed, shown), facts.golden.ops[theirs.op].op->op_name));
    return;
  }
}

}  // namespace sonde
