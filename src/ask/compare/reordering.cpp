#include <fmt/format.h>

#include <algorithm>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

// The op that may have put what this one reads in another order, of those that only move elements: it has no
// counterpart, was called otherwise, or chooses by numbers. And the compared op where it shows.
std::pair<const ComparedOp*, const CatalogOp*> reordering_before(const CompareFacts& facts, const ComparedOp& op) {
  constexpr std::size_t kMost = 24;
  const ComparedOp* choosing = nullptr;
  for (const bool in_golden : {false, true}) {
    const CompareSide& side = facts.side(in_golden);
    Group border = {in_golden ? op.golden_index : op.target_index};
    for (std::size_t i = 0; i < border.size() && i < kMost; ++i) {
      for (const CompareInput& input : side.ops[border[i]].inputs) {
        if (input.from == kNoOp || !input.is_read) continue;
        const ComparedOp* compared = facts.pairs.of(in_golden, input.from);
        if (compared == nullptr) continue;
        const ComparedOp& before = *compared;
        const OpKind kind = side.ops[input.from].kind;
        const bool is_alone = before.is_alone();
        const bool is_elementwise =
            kind == OpKind::exact || kind == OpKind::elementwise || kind == OpKind::transcendental;
        if (kind == OpKind::selection && !is_alone &&
            !choices_apart(*before.target.back(), *before.golden.back()).empty()) {
          return {&before, side.ops[input.from].op};
        }
        if (kind != OpKind::copy) {  // data in another order stays in that order
          if (is_elementwise && !is_alone) border.push_back(input.from);
          continue;
        }
        if (is_alone || !attributes_apart(*before.target.back(), *before.golden.back()).empty()) {
          return {&before, side.ops[input.from].op};
        }
        if (choosing == nullptr && picks_elements(bare_type(before.target.back()->op_type))) choosing = &before;
        border.push_back(input.from);
      }
    }
  }
  // Ops around it that one side alone has are nearer.
  if (choosing != nullptr && !facts.pairs.is_doubtful(op)) return {choosing, choosing->target.back()};
  return {nullptr, nullptr};
}

// The two compute differently, so the order of what they read need not explain the difference.
bool has_reason_of_its_own(const CompareFacts& facts, const ComparedOp& op) {
  const CompareOp &left = facts.target.ops[op.target_index], &right = facts.golden.ops[op.golden_index];
  return !OpFamilies::same(*left.family, *right.family) || !values_apart(*left.op, *right.op).empty();
}

}  // namespace

// Statistics do not show the order of elements: for an op with seemingly equal inputs, those that reorder them.
void blame_reordering(const CompareFacts& facts, StepFindings& findings) {
  for (CompareFinding& finding : findings.all()) {
    if (finding.kind != FindingKind::op || finding.tensor == nullptr || finding.op->golden.empty()) continue;
    if (finding.tensor->difference->by != ComparedBy::statistics || finding.op->inputs.empty()) continue;
    const double shown = finding.tensor->difference->relative();
    const bool seem_equal = std::ranges::all_of(finding.op->inputs, [&](const ComparedTensor& input) {
      const double spacing = coarser_spacing(*input.difference);
      return input.difference->relative() <= std::max(1e-12, std::min(16 * spacing, 1e-3 * shown));
    });
    if (!seem_equal || has_reason_of_its_own(facts, *finding.op)) continue;
    const std::string settle = fmt::format(
        " (statistics do not show the order of elements; dumps of the tensors of {} and of the operators before it "
        "settle it)",
        finding.op->target.back()->op_name);
    const auto [op, culprit] = reordering_before(facts, *finding.op);
    if (culprit == nullptr) {
      finding.doubt("; or its inputs have the same elements in another order" + settle);
      continue;
    }
    std::string why = op->is_alone() ? "has no counterpart" : "may choose other elements";
    if (!op->is_alone()) {
      const std::vector<std::string> apart = attributes_apart(*op->target.back(), *op->golden.back());
      if (!apart.empty()) why = "is called with " + apart.front();
    }
    finding.what =
        fmt::format("{}, and {}, which reads its output, introduces {}", why, finding.culprit->op_name, finding.what);
    finding.doubt(settle);
    finding.kind = FindingKind::wiring;
    finding.in_golden = op->target.empty();
    finding.culprit = culprit;
    finding.place = op->target.empty() ? facts.pairs.place_of_golden(op->golden_index) : op->target_index;
  }
}

}  // namespace sonde
