// The reference of pair.h: one pair at a time, in plain C++. Every other kernel must give the same result.
#include "ground/stats/pair_scalar.h"

#include <algorithm>
#include <cmath>

#include "ground/stats/pair_kernels.h"
#include "ground/tensor/small_floats.h"

namespace sonde {
namespace {

void widen_float16(const std::uint16_t* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = float16_to_float(from[i]);
}

void widen_bfloat16(const std::uint16_t* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = bfloat16_to_float(from[i]);
}

void add_non_finite(PairLanes& state, std::size_t lane, double x, double y) {
  PairSums& found = state.found;
  if (!std::isfinite(x)) found.non_finite.count(x);
  if (!std::isfinite(y)) found.golden_non_finite.count(y);
  const bool both_nan = std::isnan(x) && std::isnan(y);
  if (both_nan || x == y) {
    ++found.equal_non_finite;
  } else {
    ++found.mismatches;
  }
  if (both_nan || (std::isinf(x) && std::isinf(y))) ++found.same_non_finite;
  // msaccucmp's relative error includes all elements; NaN > epsilon is false.
  if (state.all_sums && std::abs(y) > kRelativeEpsilon) {
    const double relative = std::abs(x / y - 1);
    state.lanes[kRelative][lane] += relative;
    found.max_nonzero_relative = greater_or_nan(found.max_nonzero_relative, relative);
  }
}

void add_relative(PairLanes& state, std::size_t lane, std::uint64_t index, double x, double y) {
  PairSums& found = state.found;
  const PairTerms terms = terms_of(x, y);
  state.lanes[kErrors][lane] += terms.error;
  if (terms.relative < 0.001) ++found.below_thousandth;
  if (terms.relative < 0.005) ++found.below_five_thousandths;
  if (terms.relative > found.max_relative) {
    found.max_relative = terms.relative;
    found.worst_relative = {index, x, y};
  }
  if (std::abs(y) > kRelativeEpsilon) {
    state.lanes[kRelative][lane] += terms.relative;
    found.max_nonzero_relative = greater_or_nan(found.max_nonzero_relative, terms.relative);
  }
}

void add_pair(PairLanes& state, double x, double y) {
  const std::size_t lane = state.done % kLanes;
  const std::uint64_t index = state.done++;
  PairSums& found = state.found;
  if (!std::isfinite(x) || !std::isfinite(y)) {
    add_non_finite(state, lane, x, y);
    return;
  }
  ++found.finite_pairs;
  take_extremes(state, x, x, y, y);
  const PairTerms terms = terms_of(x, y);
  state.lanes[kSum][lane] += x;
  state.lanes[kGoldenSum][lane] += y;
  state.lanes[kSquares][lane] += x * x;
  state.lanes[kGoldenSquares][lane] += y * y;
  state.lanes[kProducts][lane] += x * y;
  state.lanes[kErrorSquares][lane] += terms.difference * terms.difference;
  if (x != y) ++found.mismatches;
  if (terms.error > found.max_error) {
    found.max_error = terms.error;
    found.worst = {index, x, y};
  }
  if (state.all_sums) add_relative(state, lane, index, x, y);
}

}  // namespace

PairTerms terms_of(double x, double y) {
  PairTerms terms;
  terms.difference = x - y;
  terms.error = std::abs(terms.difference);
  terms.relative =
      y == 0 ? std::abs(x + kRelativeEpsilon - kRelativeEpsilon) / kRelativeEpsilon : terms.error / std::abs(y);
  return terms;
}

void take_extremes(PairLanes& state, double min, double max, double golden_min, double golden_max) {
  PairSums& found = state.found;
  if (!state.any_finite) {
    state.any_finite = true;
    found.min = min;
    found.max = max;
    found.golden_min = golden_min;
    found.golden_max = golden_max;
    return;
  }
  found.min = std::min(found.min, min);
  found.max = std::max(found.max, max);
  found.golden_min = std::min(found.golden_min, golden_min);
  found.golden_max = std::max(found.golden_max, golden_max);
}

template <typename T>
void add_pairs_scalar(PairLanes& state, const T* x, const T* y, std::size_t pairs) {
  for (std::size_t i = 0; i < pairs; ++i) add_pair(state, static_cast<double>(x[i]), static_cast<double>(y[i]));
}
template void add_pairs_scalar(PairLanes&, const float*, const float*, std::size_t);
template void add_pairs_scalar(PairLanes&, const double*, const double*, std::size_t);

const PairKernel& scalar_pair_kernel() {
  static constexpr PairKernel kKernel = {"scalar", nullptr, nullptr, widen_float16, widen_bfloat16};
  return kKernel;
}

}  // namespace sonde
