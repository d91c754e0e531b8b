#include "ask/unsharded/op_evidence.h"

#include <algorithm>
#include <cmath>

#include "ask/compare/factor.h"
#include "plan/config/op_types.h"
#include "read/measure/health.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr double kSameScale = 1e-3;  // relative
constexpr double kLeastCosine = 0.999;
constexpr double kClearFactor = 0.05;  // relative: more than a half type rounds

}  // namespace

std::optional<std::uint32_t> first_not_finite(const CatalogRank& rank, const CompareSide& side,
                                              const std::set<std::uint32_t>& ops) {
  HealthReader health(rank);
  const auto is_bad = [&](const CatalogTensor* tensor) { return tensor->recorded() && health.of(*tensor).bad(); };
  for (const std::uint32_t index : ops) {
    const CompareOp& op = side.ops[index];
    if (is_collective(op.op->op_type)) continue;  // another rank brought it
    const bool reads_bad = std::ranges::any_of(
        op.inputs, [&](const CompareInput& input) { return input.is_read && is_bad(input.tensor); });
    if (!reads_bad && op.kind != OpKind::copy && std::ranges::any_of(op.outputs, is_bad)) return index;
  }
  return std::nullopt;
}

std::set<std::uint32_t> with_makers(const CompareSide& side, std::uint32_t op) {
  std::set<std::uint32_t> found = {op};
  std::vector<std::uint32_t> waiting = {op};
  while (!waiting.empty()) {
    const std::uint32_t at = waiting.back();
    waiting.pop_back();
    for (const CompareInput& input : side.ops[at].inputs) {
      if (input.from != kNoOp && found.insert(input.from).second) waiting.push_back(input.from);
    }
  }
  return found;
}

bool scales_by(double factor, const CatalogRank& rank, const CompareOp& op) {
  if (op.outputs.size() != 1 || !op.outputs.front()->recorded()) return false;
  return std::ranges::any_of(op.inputs, [&](const CompareInput& input) {
    if (!input.is_read || !input.tensor->recorded() || input.tensor->shape != op.outputs.front()->shape) return false;
    const std::optional<double> found =
        factor_between(difference_of({&rank, op.outputs.front()}, {&rank, input.tensor}, {}, in_order));
    return found && std::abs(*found / factor - 1) < kSameScale;
  });
}

bool only_moves(const CompareOp& op) {
  const std::string_view type = op.op->op_type;
  return op.kind == OpKind::copy || op.kind == OpKind::cast || is_collective(type) || packs_for_collective(type);
}

bool reads_value(const CompareInput& input) {
  return input.is_read && input.tensor->recorded() && !input.tensor->constant &&
         !input.tensor->parameter.is_parameter();
}

bool puts_together(const CompareOp& op) {
  return op.kind == OpKind::copy && std::ranges::count_if(op.inputs, reads_value) > 1;
}

std::optional<double> near_factor_between(const TensorDifference& difference) {
  const PairSums& sums = difference.sums;
  const bool is_known = difference.by == ComparedBy::values && difference.different_non_finite == 0;
  if (!is_known || sums.golden_squares <= 0 || sums.squares <= 0) return std::nullopt;
  if (sums.products < kLeastCosine * std::sqrt(sums.squares) * std::sqrt(sums.golden_squares)) return std::nullopt;
  const double factor = sums.products / sums.golden_squares;
  return std::abs(factor - 1) < kClearFactor ? std::nullopt : std::optional(factor);
}

}  // namespace sonde
