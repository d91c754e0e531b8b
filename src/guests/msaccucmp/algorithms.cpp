#include "guests/msaccucmp/algorithms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace sonde::msaccucmp {
namespace {

constexpr double kEpsilon = 0x1p-52;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr std::array<std::string_view, kAlgorithms> kNames = {
    "CosineSimilarity",          "MaxAbsoluteError",  "AccumulatedRelativeError", "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence", "StandardDeviation", "MeanAbsoluteError",        "RootMeanSquareError",
    "MaxRelativeError",          "MeanRelativeError"};

// All the values of one pair that the algorithms may need. The sums of compare_pair leave out elements that are not
// finite; here they are combined as in NumPy.
class Sums {
 public:
  Sums(const Operands& operands, const ForEach& for_each)
      : operands_(operands),
        for_each_(for_each),
        pair_(compare_pair(operands.left, operands.right, kOptions, for_each)),
        left_{pair_.sum, pair_.squares, pair_.non_finite},
        right_{pair_.golden_sum, pair_.golden_squares, pair_.golden_non_finite} {
    if (pair_.non_finite_pairs() == 0) return;
    // Elements whose partner is not finite count for their own side.
    const PairSums left = compare_pair(operands.left, operands.left, kOptions, for_each);
    const PairSums right = compare_pair(operands.right, operands.right, kOptions, for_each);
    left_.sum = left.sum, left_.squares = left.squares;
    right_.sum = right.sum, right_.squares = right.squares;
  }

  struct Side {
    double sum, squares;
    NonFiniteCounts non_finite;

    bool is_finite() const { return non_finite.all() == 0; }
    double norm() const {
      if (non_finite.nan > 0) return kNan;
      return is_finite() ? std::sqrt(squares) : kInfinity;
    }
    double mean(double count) const {
      const auto& [nan, up, down] = non_finite;
      if (nan > 0 || (up > 0 && down > 0)) return kNan;
      if (up > 0) return kInfinity;
      return down > 0 ? -kInfinity : sum / count;
    }
  };

  std::uint64_t count() const { return pair_.count; }
  double n() const { return static_cast<double>(pair_.count); }
  const PairSums& pair() const { return pair_; }
  const Side& left() const { return left_; }
  const Side& right() const { return right_; }

  // A sum, a mean or a maximum of differences; `finite` is the result if all are finite.
  double of_differences(double finite) const {
    if (pair_.non_finite_pairs() == 0) return finite;
    const bool has_nan = left_.non_finite.nan > 0 || right_.non_finite.nan > 0 || pair_.equal_non_finite > 0;
    return has_nan ? kNan : kInfinity;
  }
  double kl() const { return kl_divergence(operands_.left, operands_.right, pair_, kOptions, for_each_); }
  // Population standard deviation of one side.
  double deviation(bool is_left) const {
    const Side& side = is_left ? left_ : right_;
    if (!side.is_finite() || count() == 0) return kNan;
    const double mean = side.sum / n();
    const double variance = side.squares / n() - mean * mean;
    // If the mean is much larger than the spread, too few digits are left: computes it again, relative to the mean.
    if (variance > 1e-6 * mean * mean) return std::sqrt(variance);
    const auto centre = static_cast<float>(mean);
    const double offset = mean - centre;
    const double around = squares_from(is_left ? operands_.left : operands_.right, centre) / n() - offset * offset;
    return std::sqrt(std::max(around, 0.0));
  }

 private:
  static constexpr PairOptions kOptions = {.as_float32 = true, .real_only = true};

  // The sum of the squared distances from `centre`: each element is paired with the same number.
  double squares_from(const TensorView& view, float centre) const {
    const std::int64_t stride = 0;
    TensorView centres;
    centres.dtype = DType::float32;
    centres.data = reinterpret_cast<const std::byte*>(&centre);
    centres.shape = view.shape;
    centres.strides = {&stride, 1};
    return compare_pair(view, centres, kOptions, for_each_).error_squares;
  }

  const Operands& operands_;
  const ForEach& for_each_;
  PairSums pair_;
  Side left_, right_;
};

struct Answer {
  std::string value, remark;
};

Answer not_available(std::string why) { return {"NaN", std::move(why)}; }

Answer cosine(const Operands& operands, const Sums& sums) {
  if (operands.is_scalar) return {"1.000000", "a scalar: its cosine similarity has no meaning"};
  const double left = sums.left().norm(), right = sums.right().norm();
  if (left <= kEpsilon && right < kEpsilon) return {"1.0", ""};
  const auto all_zero = [](std::string_view path) {
    return not_available(fmt::format("no cosine similarity: all zero in '{}'", path));
  };
  if (std::sqrt(left) <= kEpsilon) return all_zero(operands.left_path);
  if (std::sqrt(right) <= kEpsilon) return all_zero(operands.right_path);
  if (sums.pair().non_finite_pairs() > 0) return {"nan", ""};
  return {fixed(std::min(sums.pair().products / left / right, 1.0)), ""};
}

double euclidean(const Sums& sums) {
  const double right = sums.right().norm();
  if (right <= kEpsilon) return 0;
  if (!sums.right().is_finite()) return kNan;
  return sums.of_differences(std::sqrt(sums.pair().error_squares)) / right;
}

Answer kullback_leibler(const Sums& sums) {
  double value = sums.kl();
  if (std::abs(value) < kEpsilon) value = 0;
  Answer answer{fixed(value), ""};
  if (value == kInfinity) answer.remark = "KullbackLeiblerDivergence is infinite";
  return answer;
}

std::string deviation_side(double mean, double deviation) {
  const auto text = [](double value) { return fixed(std::abs(value) < 0.001 ? 0 : value, 3); };
  return fmt::format("({};{})", text(mean), text(deviation));
}

Answer standard_deviation(const Sums& sums) {
  const double n = sums.n();
  return {fmt::format("{},{}", deviation_side(sums.left().mean(n), sums.deviation(true)),
                      deviation_side(sums.right().mean(n), sums.deviation(false))),
          ""};
}

Answer answer(Algorithm algorithm, const Operands& operands, const Sums& sums) {
  const PairSums& pair = sums.pair();
  const auto of_nothing = [&] { return not_available(fmt::format("no {} of no elements", name_of(algorithm))); };
  const bool is_empty = sums.count() == 0;
  switch (algorithm) {
    case Algorithm::cosine_similarity:
      return cosine(operands, sums);
    case Algorithm::max_absolute_error:
      return is_empty ? of_nothing() : Answer{fixed(sums.of_differences(pair.max_error)), ""};
    case Algorithm::accumulated_relative_error:
      return {fixed(pair.relative_errors), ""};
    case Algorithm::relative_euclidean_distance:
      return {fixed(euclidean(sums)), ""};
    case Algorithm::kullback_leibler_divergence:
      return is_empty ? of_nothing() : kullback_leibler(sums);
    case Algorithm::standard_deviation:
      return standard_deviation(sums);
    case Algorithm::mean_absolute_error:
      return {fixed(sums.of_differences(pair.errors) / sums.n()), ""};
    case Algorithm::root_mean_square_error:
      return {fixed(std::sqrt(sums.of_differences(pair.error_squares) / sums.n())), ""};
    case Algorithm::max_relative_error:
      return is_empty ? of_nothing() : Answer{fixed(pair.max_nonzero_relative), ""};
    case Algorithm::mean_relative_error:
      return {fixed(pair.relative_errors / sums.n()), ""};
  }
  return not_available("unknown algorithm");
}

}  // namespace

std::string_view name_of(Algorithm algorithm) { return kNames[static_cast<std::size_t>(algorithm)]; }

std::optional<Algorithm> algorithm_from(std::string_view name_or_number) {
  if (name_or_number.size() == 1 && name_or_number[0] >= '0' && name_or_number[0] <= '9') {
    return static_cast<Algorithm>(name_or_number[0] - '0');
  }
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name_or_number) return static_cast<Algorithm>(i);
  }
  return std::nullopt;
}

std::string fixed(double value, int digits) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, digits);
}

std::vector<std::string> compute(std::span<const Algorithm> algorithms, const Operands& operands,
                                 std::vector<std::string>& remarks, const ForEach& for_each) {
  std::vector<std::string> values;
  if (algorithms.empty()) return values;
  const Sums sums(operands, for_each);
  const bool are_bools =
      !operands.bools_are_numbers && operands.left.dtype == DType::bool8 && operands.right.dtype == DType::bool8;
  for (const Algorithm algorithm : algorithms) {
    const bool is_undefined = are_bools && algorithm != Algorithm::cosine_similarity;
    Answer found = is_undefined ? not_available(fmt::format("no {} of bool", name_of(algorithm)))
                                : answer(algorithm, operands, sums);
    values.push_back(std::move(found.value));
    if (!found.remark.empty()) remarks.push_back(std::move(found.remark));
  }
  return values;
}

}  // namespace sonde::msaccucmp
