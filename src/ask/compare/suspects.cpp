#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "ground/model/data_name.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

// What depends on data alone has no gradient that could stop. What an earlier step left may have one.
bool depends_on_parameter(const CompareSide& side, std::uint32_t op) {
  std::vector<std::uint32_t> open = {op};
  std::set<std::uint32_t> seen = {op};
  while (!open.empty()) {
    const CompareOp& one = side.ops[open.back()];
    open.pop_back();
    for (const CompareInput& input : one.inputs) {
      const NameKind kind = input.from == kNoOp ? kind_of_name(input.name) : NameKind::none;
      if (kind == NameKind::parameter || kind == NameKind::carried) return true;
      if (input.from != kNoOp && seen.insert(input.from).second) open.push_back(input.from);
    }
  }
  return false;
}

}  // namespace

void name_suspects(const CompareFacts& facts, StepFindings& findings, const ComparedOp* suspect) {
  const CompareFinding* first = findings.first();
  const bool any_rounding = std::ranges::any_of(facts.pairs.ops(), [](const ComparedOp& op) {
    return op.verdict == OpVerdict::within_tolerance || op.verdict == OpVerdict::propagated;
  });
  if (suspect != nullptr && (first != nullptr ? first->place > suspect->target_index : any_rounding)) {
    const std::vector<std::string> apart = numbers_apart(*suspect->target.back(), *suspect->golden.back());
    findings.add(FindingKind::number, *suspect, suspect->target.back(), false, nullptr,
                 fmt::format("is called with {}: its own result is the same, but later results differ", apart.front()));
    return;
  }
  if (first == nullptr || first->op->target.empty()) {
    if (first == nullptr || first->kind != FindingKind::missing) return;
  } else if (phase_of(*first->op->target.front()) == Phase::forward) {
    return;
  }
  const std::uint32_t place = first->place;
  const std::string shown = fmt::format("{} {}", first->culprit->op_name, first->what);
  const ComparedOp* op = nullptr;
  std::uint32_t begins = place;
  for (const ComparedOp& one : facts.pairs.ops()) {
    if (one.verdict != OpVerdict::unmatched) continue;
    const CatalogOp& own = *(one.golden.empty() ? one.target : one.golden).front();
    if (!is_detach(bare_type(own.op_type)) || phase_of(own) != Phase::forward) continue;
    const std::uint32_t at = one.golden.empty() ? one.target_index : facts.pairs.place_of_golden(one.golden_index);
    if (at >= begins) continue;
    const bool is_golden = one.target.empty();
    if (!depends_on_parameter(facts.side(is_golden), is_golden ? one.golden_index : one.target_index)) continue;
    begins = at;
    op = &one;
  }
  if (op == nullptr) return;
  const bool in_golden = op->target.empty();
  findings.add(in_golden ? FindingKind::missing : FindingKind::inserted, *op,
               (in_golden ? op->golden : op->target).front(), in_golden, nullptr,
               fmt::format("has no counterpart in the {}, and gradients differ: {}", name_of_other(in_golden), shown));
  findings.all().back().place = begins;
}

}  // namespace sonde
