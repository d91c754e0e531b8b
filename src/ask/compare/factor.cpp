#include "ask/compare/factor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace sonde {
namespace {

constexpr double kApart = 5e-4;  // of factors that count as one
constexpr double kLeastChange = 1e-3;

bool is_round(double factor) {
  const double size = std::abs(factor) < 1 ? 1 / std::abs(factor) : std::abs(factor);
  return std::isfinite(size) && std::abs(size - std::round(size)) < 1e-5 * size;
}

std::optional<double> by_values(const TensorDifference& difference) {
  const PairSums& sums = difference.sums;
  if (difference.different_non_finite > 0 || sums.golden_squares <= 0 || sums.squares <= 0) return std::nullopt;
  const double cosine = sums.products / std::sqrt(sums.squares) / std::sqrt(sums.golden_squares);
  if (std::sqrt(2 * std::max(0.0, 1 - std::abs(cosine))) > kApart) return std::nullopt;
  return sums.products / sums.golden_squares;
}

std::optional<double> by_statistics(const TensorDifference& difference) {
  const KnownStatistics &mine = difference.statistics, &theirs = difference.golden_statistics;
  if (difference.non_finite > 0 || difference.golden_non_finite > 0 || !mine.l2norm || !theirs.l2norm) {
    return std::nullopt;
  }
  if (*mine.l2norm <= 0 || *theirs.l2norm <= 0) return std::nullopt;
  const double factor = *mine.l2norm / *theirs.l2norm;
  std::size_t shown = 0;
  const std::array<std::pair<std::optional<double>, std::optional<double>>, 3> others = {
      {{mine.max, theirs.max}, {mine.min, theirs.min}, {mine.avg, theirs.avg}}};
  for (const auto& [a, b] : others) {
    if (!a || !b) return std::nullopt;
    if (std::abs(*a - factor * *b) > kApart * std::abs(factor * *b)) return std::nullopt;
    shown += *b != 0;
  }
  if (shown < 2) return std::nullopt;
  return factor;
}

}  // namespace

std::optional<double> factor_between(const TensorDifference& difference) {
  if (!difference.comparable() || difference.equal) return std::nullopt;
  std::optional<double> factor;
  if (difference.by == ComparedBy::values) factor = by_values(difference);
  if (difference.by == ComparedBy::statistics) factor = by_statistics(difference);
  if (!factor || !std::isfinite(*factor) || std::abs(*factor - 1) < kLeastChange) return std::nullopt;
  if (difference.count == 1 && !is_round(*factor)) return std::nullopt;
  return factor;
}

std::string factor_text(double factor, const TensorDifference& difference) {
  return fmt::format("{}{:#.4g} times", difference.by == ComparedBy::statistics ? "about " : "", factor);
}

}  // namespace sonde
