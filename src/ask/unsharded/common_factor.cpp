#include "ask/unsharded/common_factor.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "ground/model/gradient_name.h"

namespace sonde {
namespace {

constexpr std::size_t kFewestGradients = 6;
constexpr double kLeastFactor = 0.15;  // from 1: the clipping of gradients that are apart by rounding has less
constexpr double kNearFactor = 0.05;   // of each gradient's factor to that of most

// By the norms; nothing: not by statistics, or of a sum of parts, whose norm is not known.
std::optional<double> factor_of_norms(const Joined& joined) {
  const TensorDifference& difference = joined.difference;
  if (!joined.possible || difference.by != ComparedBy::statistics) return std::nullopt;
  const KnownStatistics &own = difference.statistics, &golden = difference.golden_statistics;
  if (!own.l2norm || !golden.l2norm || !own.all_finite() || !golden.all_finite()) return std::nullopt;
  if (*golden.l2norm == 0 || *own.l2norm == 0) return std::nullopt;
  return *own.l2norm / *golden.l2norm;
}

// Of each gradient in a half type, where the optimizer reads it first.
std::vector<double> factors_of_gradients(const StepJoiner& joiner) {
  std::vector<double> factors;
  std::set<std::string> seen;
  for (std::uint32_t g = 0; g < joiner.golden().side().ops.size(); ++g) {
    const SiteCalls::Address& address = joiner.golden().calls().address(g);
    if (address.site.place.kind != SiteKind::optimizer) continue;
    const std::vector<Counterpart> candidates = joiner.counterparts().of(g);
    if (candidates.empty() || candidates.front().site != address.site) continue;
    for (const CompareInput& input : joiner.golden().side().ops[g].inputs) {
      if (!input.is_read || !input.tensor->recorded() || !is_gradient_name(input.name)) continue;
      if (!joiner.is_half_of_both(*input.tensor) || !seen.emplace(input.name).second) continue;
      if (const auto factor = factor_of_norms(joiner.join_input(g, input, candidates.front()))) {
        factors.push_back(*factor);
      }
    }
  }
  return factors;
}

}  // namespace

std::optional<double> common_factor_of_gradients(const StepJoiner& joiner) {
  std::vector<double> factors = factors_of_gradients(joiner);
  if (factors.size() < kFewestGradients) return std::nullopt;
  const auto middle = factors.begin() + static_cast<std::ptrdiff_t>(factors.size() / 2);
  std::ranges::nth_element(factors, middle);
  const double factor = *middle;
  if (std::abs(factor - 1) < kLeastFactor) return std::nullopt;
  const auto near =
      std::ranges::count_if(factors, [&](double one) { return std::abs(one / factor - 1) < kNearFactor; });
  if (4 * static_cast<std::size_t>(near) < 3 * factors.size()) return std::nullopt;
  return factor;
}

}  // namespace sonde
