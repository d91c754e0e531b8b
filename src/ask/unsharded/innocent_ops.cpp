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

// The first input of the op on each rank of its stage; empty: a rank does not have it.
std::vector<TensorOf> inputs_of_ranks(const WholeStep& step, std::size_t rank, std::uint32_t op) {
  const std::vector<RankStep>& ranks = step.ranks();
  const SiteCalls::Address& address = ranks[rank].calls.address(op);
  std::vector<TensorOf> found;
  for (const RankStep& of : ranks) {
    if (of.stage != ranks[rank].stage) continue;
    const std::vector<SiteCall>* calls = of.calls.at(address.site);
    if (calls == nullptr || address.number >= calls->size()) return {};
    const std::vector<CompareInput>& inputs = of.side->ops[(*calls)[address.number].last()].inputs;
    if (inputs.empty() || !inputs.front().tensor->recorded()) return {};
    found.push_back({of.rank, inputs.front().tensor});
  }
  return found;
}

bool has_mean_of_sum(const std::vector<TensorOf>& parts, const CatalogTensor& sum) {
  if (!sum.statistics || !sum.statistics->avg || !sum.statistics->l2norm || !sum.has_shape) return false;
  double mean = 0;
  for (const TensorOf& part : parts) {
    if (!part.tensor->statistics || !part.tensor->statistics->avg) return false;
    mean += *part.tensor->statistics->avg;
  }
  // Each element is rounded by itself.
  const double elements = std::max(1.0, static_cast<double>(element_count(sum.shape)));
  const double of_each = *sum.statistics->l2norm / elements + std::abs(*sum.statistics->avg) / std::sqrt(elements);
  return std::abs(mean - *sum.statistics->avg) <= kSpacingsOfMean * epsilon_of(sum.dtype) * of_each;
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
  const RankStep& of = step.ranks()[rank];
  const CompareOp& collective = of.side->ops[op];
  if (!is_collective(collective.op->op_type) || collective.outputs.size() != 1) return false;
  const CatalogTensor* sum = collective.outputs.front();
  const std::vector<TensorOf> inputs = inputs_of_ranks(step, rank, op);
  const bool are_alike =
      std::ranges::all_of(inputs, [&](const TensorOf& one) { return one.tensor->shape == sum->shape; });
  if (inputs.size() < 2 || !sum->recorded() || !are_alike) return false;
  TensorParts parts(inputs.size(), 1), whole(1, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) parts.set(i, 0, inputs[i]);
  whole.set(0, 0, {of.rank, sum});
  if (parts.any_without_values() || whole.any_without_values()) return has_mean_of_sum(inputs, *sum);
  const Joined joined = join(parts, whole, {.tolerance = kSpacingsOfSum * epsilon_of(sum->dtype)});
  return joined.fits && joined.is_sum;
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
