#include "ask/unsharded/innocent_ops.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ask/compare/tolerance.h"
#include "ask/unsharded/op_evidence.h"
#include "ground/base/shape.h"
#include "plan/config/op_types.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr double kSpacingsOfSum = 64;   // of rounding, beside another order of adding up
constexpr double kSpacingsOfMean = 4;   // of rounding of each element
constexpr double kSpacingsOfSize = 16;  // by which the sizes of two tensors differ for another reason than rounding

// The root mean square of the one over that of the golden one; nothing: it is not known.
std::optional<double> ratio_of_sizes(const TensorDifference& difference) {
  if (difference.different_non_finite > 0) return std::nullopt;
  const PairSums& sums = difference.sums;
  if (difference.by == ComparedBy::values && sums.golden_squares > 0) {
    return std::sqrt(sums.squares / sums.golden_squares);
  }
  const KnownStatistics &own = difference.statistics, &golden = difference.golden_statistics;
  if (difference.by == ComparedBy::statistics && own.l2norm && golden.l2norm && *golden.l2norm > 0) {
    return *own.l2norm / *golden.l2norm;
  }
  return std::nullopt;
}

// An op that only moves elements keeps their size.
bool has_other_size(const TensorDifference& difference) {
  const std::optional<double> ratio = ratio_of_sizes(difference);
  return ratio && std::abs(*ratio - 1) > kSpacingsOfSize * coarser_spacing(difference);
}

// The first input of the op that it reads, and its result, on each rank of its stage. Empty: a rank does not have them.
struct Passed {
  std::vector<TensorOf> inputs, results;
};

Passed passed_by_ranks(const WholeStep& step, std::size_t rank, std::uint32_t op) {
  const std::vector<RankStep>& ranks = step.ranks();
  const SiteCalls::Address& address = ranks[rank].calls.address(op);
  Passed found;
  for (const RankStep& of : ranks) {
    if (of.stage != ranks[rank].stage) continue;
    const std::vector<SiteCall>* calls = of.calls.at(address.site);
    if (calls == nullptr || address.number >= calls->size()) return {};
    const CompareOp& there = of.side->ops[(*calls)[address.number].last()];
    const auto input = std::ranges::find_if(
        there.inputs, [](const CompareInput& one) { return one.is_read && one.tensor->recorded(); });
    if (input == there.inputs.end() || there.outputs.size() != 1 || !there.outputs.front()->recorded()) return {};
    found.inputs.push_back({of.rank, input->tensor});
    found.results.push_back({of.rank, there.outputs.front()});
  }
  return found;
}

std::optional<double> mean_of(const TensorOf& of) {
  return of.tensor->statistics ? of.tensor->statistics->avg : std::nullopt;
}

// `wholes`: one, or as many of one size as there are parts, each of which has its piece of the sum.
bool has_mean_of_sum(const std::vector<TensorOf>& parts, const std::vector<TensorOf>& wholes) {
  double mean = 0, sum = 0, squares = 0, elements = 0;
  for (const TensorOf& whole : wholes) {
    const std::optional<KnownStatistics>& known = whole.tensor->statistics;
    if (!known || !known->avg || !known->l2norm || !whole.tensor->has_shape) return false;
    sum += *known->avg / static_cast<double>(wholes.size());
    squares += *known->l2norm * *known->l2norm;
    elements += static_cast<double>(element_count(whole.tensor->shape));
  }
  for (const TensorOf& part : parts) {
    const std::optional<double> of_part = mean_of(part);
    if (!of_part) return false;
    mean += *of_part;
  }
  elements = std::max(1.0, elements);
  // Each element is rounded by itself.
  const double of_each = std::sqrt(squares) / elements + std::abs(sum) / std::sqrt(elements);
  return std::abs(mean - sum) <= kSpacingsOfMean * epsilon_of(wholes.front().tensor->dtype) * of_each;
}

// Gradients of the ranks' own batches, or outside of modules, where programs exchange them themselves.
bool may_be_of_gradients(const CallSite& site) { return site.place.kind != SiteKind::forward || site.module.empty(); }

}  // namespace

bool divides_like_micro_batches(const WholeStep& step, std::size_t rank, std::uint32_t op) {
  const RankStep& of = step.ranks()[rank];
  if (step.micro_batches() == 1 || !of.calls.address(op).site.module.empty()) return false;
  return scales_by(1 / static_cast<double>(step.micro_batches()), *of.rank, of.side->ops[op]);
}

bool adds_up_ranks(const WholeStep& step, std::size_t rank, std::uint32_t op) {
  if (!is_collective(step.ranks()[rank].side->ops[op].op->op_type)) return false;
  Passed passed = passed_by_ranks(step, rank, op);
  const std::size_t count = passed.inputs.size();
  if (count < 2) return false;
  // Each rank has the sum, or its piece of it.
  const auto have = [&](std::size_t pieces) {
    return std::ranges::all_of(passed.inputs, [&](const TensorOf& one) {
      const CatalogTensor& own = *passed.results[static_cast<std::size_t>(&one - passed.inputs.data())].tensor;
      return one.tensor->has_shape && own.has_shape &&
             element_count(one.tensor->shape) == pieces * element_count(own.shape);
    });
  };
  const bool are_pieces = have(count);
  if (!are_pieces && !have(1)) return false;
  if (!are_pieces) passed.results.resize(1);
  TensorParts parts(count, 1), whole(passed.results.size(), 1);
  for (std::size_t i = 0; i < count; ++i) parts.set(i, 0, passed.inputs[i]);
  for (std::size_t i = 0; i < passed.results.size(); ++i) whole.set(i, 0, passed.results[i]);
  if (parts.any_without_values() || whole.any_without_values()) return has_mean_of_sum(passed.inputs, passed.results);
  const Joined joined =
      join(parts, whole, {.tolerance = kSpacingsOfSum * epsilon_of(passed.results.front().tensor->dtype)});
  return joined.fits && joined.is_sum && !joined.golden_is_sum;
}

bool is_innocent(const WholeStep& step, std::size_t rank, std::uint32_t op, const TensorDifference& difference) {
  const RankStep& of = step.ranks()[rank];
  const CompareOp& own = of.side->ops[op];
  if (is_collective(own.op->op_type)) return adds_up_ranks(step, rank, op);
  if (only_moves(own)) return has_other_size(difference);
  const auto ranks = static_cast<double>(std::ranges::count(step.ranks(), of.stage, &RankStep::stage));
  return ranks > 1 && may_be_of_gradients(of.calls.address(op).site) && scales_by(1 / ranks, *of.rank, own);
}

}  // namespace sonde
