// The values that watch conditions compute from a tensor, and from a tensor and the previous one. All are doubles,
// added in a fixed order, so the result depends on the values only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sonde/tensor.h"

namespace sonde {

// False for complex numbers and for types without values.
bool can_watch(DType dtype);

struct ValueRange {
  double start = 0, end = 0;  // both included
  friend auto operator<=>(const ValueRange&, const ValueRange&) = default;
};

// Moments are over the finite elements; conditions use them only if all elements are finite.
struct ValueSummary {
  std::uint64_t count = 0, nan_count = 0, inf_count = 0, zero_count = 0;
  double max = 0, min = 0, mean = 0, abs_mean = 0;  // NaN without elements
  double sd = 0;                                    // of a sample; 0 for one element
  std::vector<std::uint64_t> inside;                // elements in each range

  bool all_finite() const { return nan_count == 0 && inf_count == 0; }
};
// In C order of the elements. Requires can_watch(view.dtype).
ValueSummary summarize_values(const TensorView& view, std::span<const ValueRange> ranges);

struct Tolerance {
  double relative = 0, absolute = 0;
  bool equal_nan = false;
  friend auto operator<=>(const Tolerance&, const Tolerance&) = default;
};

struct PairSummary {
  double abs_difference_mean = 0, abs_previous_mean = 0;
  std::vector<bool> all_close;  // for each tolerance
};
// Both have the same number of elements; their layouts and types may differ.
PairSummary compare_values(const TensorView& current, const TensorView& previous,
                           std::span<const Tolerance> tolerances);

}  // namespace sonde
