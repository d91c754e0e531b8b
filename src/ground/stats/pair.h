// Two tensors of one shape, compared element by element in one pass: the sums for all metrics.
//
//   const PairSums sums = compare_pair(target.view(), golden.view());
//   const double cosine = sums.products / std::sqrt(sums.squares * sums.golden_squares);
//
// Values are widened to double. The order of additions is fixed (pairs are distributed over 16 lanes within chunks of
// kPairChunk, lanes are added as a binary tree, chunks one after the other), so the result is the same to the last bit
// for every kernel and every number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ground/stats/statistics.h"
#include "sonde/tensor.h"

namespace sonde {

// Below this a golden value counts as zero in msaccucmp's relative errors; msprobe adds it to a golden 0.
inline constexpr double kRelativeEpsilon = 0x1p-52;

// The place of the largest error: the first of several.
struct PairPlace {
  std::uint64_t index = 0;       // of the element, in C order
  double value = 0, golden = 0;  // the two elements there
  friend bool operator==(const PairPlace&, const PairPlace&) = default;
};

// x is the target's element, y the golden one. Sums, errors and extremes are over pairs of finite elements; the counts
// describe the others. Complex elements count as two: their real and their imaginary part.
struct PairSums {
  std::uint64_t count = 0;       // pairs
  std::uint64_t mismatches = 0;  // pairs that are not equal: NaN equals NaN, +0 equals -0
  std::uint64_t finite_pairs = 0;
  NonFiniteCounts non_finite, golden_non_finite;
  std::uint64_t equal_non_finite = 0;  // pairs of NaN and NaN, or of the same infinity
  std::uint64_t same_non_finite = 0;   // those, and infinities of opposite signs, which msprobe counts as equal places

  double sum = 0, golden_sum = 0;                           // of x, of y
  double squares = 0, golden_squares = 0;                   // of x², of y²
  double products = 0;                                      // of x·y
  double errors = 0, error_squares = 0;                     // of |x-y|, of (x-y)²
  double min = 0, max = 0, golden_min = 0, golden_max = 0;  // 0 without a finite pair
  double max_error = 0;                                     // max |x-y|
  PairPlace worst;                                          // its place

  // |x-y| / |y|; if y is 0, kRelativeEpsilon is added to both, as in msprobe.
  double max_relative = 0;
  PairPlace worst_relative;
  std::uint64_t below_thousandth = 0, below_five_thousandths = 0;  // the number of these that are < 0.001, < 0.005
  // As in msaccucmp: |x/y - 1|, 0 if |y| <= kRelativeEpsilon. Over *all* pairs: a NaN or an infinity spreads as in
  // NumPy.
  double relative_errors = 0;
  double max_nonzero_relative = 0;

  std::uint64_t non_finite_pairs() const { return count - finite_pairs; }
  // Pairs with a NaN or an infinity on one side only, or with different ones.
  std::uint64_t different_non_finite() const { return non_finite_pairs() - equal_non_finite; }
  friend bool operator==(const PairSums&, const PairSums&) = default;
};

// As if both were one: `part` is of the pairs that follow those of `total`; its places count from the first of all.
void add(PairSums& total, const PairSums& part);

struct PairOptions {
  bool as_float32 = false;  // round both to float32 first, as msaccucmp does
  bool real_only = false;   // of complex elements only the real part, as msaccucmp does
  // false: `errors` and all relative errors stay 0, and the pass takes half the time.
  bool all_sums = true;
};

// Runs body(0) … body(count - 1), in any order and on any threads, and returns when all have ended.
using ForEach = std::function<void(std::size_t count, const std::function<void(std::size_t)>& body)>;
void in_order(std::size_t count, const std::function<void(std::size_t)>& body);

inline constexpr std::size_t kPairChunk = std::size_t{1} << 18;  // elements that one thread takes at a time

// Both views have the same number of elements; their shapes may differ (elements are paired in C order). Any dtypes.
PairSums compare_pair(const TensorView& target, const TensorView& golden, const PairOptions& options = {},
                      const ForEach& for_each = in_order);

// msaccucmp's KullbackLeiblerDivergence, from a second pass: per side v' = (v-min)/(max-min) (v if that is 0), at least
// 2^-23, over its sum; then the sum of p·ln(p/q). NaN if an element is not finite. `sums` are those of the first pass.
double kl_divergence(const TensorView& target, const TensorView& golden, const PairSums& sums,
                     const PairOptions& options = {}, const ForEach& for_each = in_order);

}  // namespace sonde
