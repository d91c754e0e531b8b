// The plain way to add pairs: for the remainder of the vector kernels, and as their reference.
#pragma once

#include <cmath>
#include <cstddef>

#include "ground/stats/pair_kernels.h"

namespace sonde {

// The terms of two finite elements.
struct PairTerms {
  double difference, error, relative;  // x-y, |x-y|, msprobe's relative error
};
PairTerms terms_of(double x, double y);

// NaN has priority, as in numpy.max.
inline double greater_or_nan(double a, double b) { return std::isnan(a) || a > b ? a : b; }

void take_extremes(PairLanes& state, double min, double max, double golden_min, double golden_max);

// T is float or double.
template <typename T>
void add_pairs_scalar(PairLanes& state, const T* x, const T* y, std::size_t pairs);

}  // namespace sonde
