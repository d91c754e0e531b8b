#include <fmt/format.h>

#include <algorithm>

#include "ask/compare/compare_passes.h"
#include "ground/model/data_name.h"

namespace sonde {
namespace {

// Data are numbered as they come: one number on both sides is one tensor only if ops that belong together read it.
bool is_in_both(const CompareFacts& facts, std::string_view name) {
  if (kind_of_name(name) == NameKind::parameter) return true;
  const auto reads = [&](const CompareSide& side, std::uint32_t op, std::uint32_t slot) {
    return std::ranges::any_of(side.ops[op].inputs, [&](const CompareInput& input) {
      return input.name == name && input.tensor->slot == slot;
    });
  };
  return std::ranges::any_of(facts.pairs.ops(), [&](const ComparedOp& op) {
    if (op.target.size() != 1 || op.golden.size() != 1 || op.target_index == kNoOp || op.golden_index == kNoOp)
      return false;
    return std::ranges::any_of(facts.target.ops[op.target_index].inputs, [&](const CompareInput& input) {
      return input.name == name && reads(facts.golden, op.golden_index, input.tensor->slot);
    });
  });
}

}  // namespace

void find_updates_left_out(const CompareFacts& facts, StepFindings& findings) {
  // In other frameworks the names do not show which ops write in place.
  const auto says_who_writes = [](const CompareSide& side) {
    return std::ranges::any_of(side.ops, &CompareOp::in_place);
  };
  if (facts.pairs.have_other_optimizers() || !says_who_writes(facts.target) || !says_who_writes(facts.golden)) return;
  const auto alone_of = [&](bool in_golden, std::uint32_t at) {
    return facts.pairs.is_alone(in_golden, at) ? facts.pairs.of(in_golden, at) : nullptr;
  };
  for (const auto& [name, writer] : facts.golden.written) {
    const ComparedOp* op = alone_of(true, writer.op);
    if (op == nullptr || facts.target.written.contains(name) || !facts.names.in_target(name)) continue;
    if (facts.target.may_be_written.contains(name) || !is_in_both(facts, name)) continue;
    findings.add(FindingKind::missing, *op, facts.golden.ops[writer.op].op, true, nullptr,
                 fmt::format("has no counterpart in the target, which does not write {}", name));
    findings.all().back().place = facts.pairs.place_of_golden(writer.op);
  }
  for (const auto& [name, writer] : facts.target.written) {
    const ComparedOp* op = alone_of(false, writer.op);
    const auto theirs = facts.golden.written.find(name);
    if (op != nullptr && theirs != facts.golden.written.end()) {  // written once more than in the golden run
      const TensorDifference& left = facts.difference(writer.output, theirs->second.output);
      if (!left.comparable() || !is_beyond(left, allowance_of_parameter(left, facts.seen.now, facts.options.tolerance)))
        continue;
      findings.add(FindingKind::inserted, *op, facts.target.ops[writer.op].op, false, nullptr,
                   fmt::format("has no counterpart in the golden dump, and writes {}", name));
      continue;
    }
    if (op == nullptr || facts.golden.written.contains(name) || !facts.names.in_golden(name)) continue;
    if (facts.golden.may_be_written.contains(name) || !is_in_both(facts, name)) continue;
    findings.add(FindingKind::inserted, *op, facts.target.ops[writer.op].op, false, nullptr,
                 fmt::format("has no counterpart in the golden dump, where nothing writes {}", name));
  }
}

}  // namespace sonde
