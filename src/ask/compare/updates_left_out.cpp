#include <fmt/format.h>

#include <algorithm>

#include "ask/compare/compare_passes.h"

namespace sonde {

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
    if (facts.target.may_be_written.contains(name)) continue;
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
    if (facts.golden.may_be_written.contains(name)) continue;
    findings.add(FindingKind::inserted, *op, facts.target.ops[writer.op].op, false, nullptr,
                 fmt::format("has no counterpart in the golden dump, where nothing writes {}", name));
  }
}

}  // namespace sonde
