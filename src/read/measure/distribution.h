// The distribution of a tensor's values, and a picture of them, each in one or two passes over the elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ground/stats/statistics.h"
#include "read/measure/slice.h"

namespace sonde {

enum class BinScale : std::uint8_t {
  linear,
  log,     // of positive elements
  symlog,  // asinh, linear near 0: from the smallest magnitude, at least 1e-12 of the largest
};

struct Distribution {
  std::vector<double> edges;  // one more than counts; empty: no element is finite
  std::vector<std::uint64_t> counts;
  std::uint64_t below = 0, above = 0;  // finite elements outside of the edges
  std::uint64_t zero_count = 0;
  NonFiniteCounts non_finite;
};

struct DistributionOptions {
  std::size_t bins = 64;
  BinScale scale = BinScale::linear;
  std::optional<double> min, max;  // of the edges; empty: of the elements
};
// Complex elements count by their magnitude.
Distribution distribution_of(const TensorView& view, const DistributionOptions& options);

// One cell of a picture: what is in a block of elements. No NaN is averaged away.
struct PictureCell {
  double min = 0, mean = 0, max = 0;
  std::uint64_t finite = 0;  // elements; 0: min, mean and max mean nothing
  std::uint8_t bad = 0;      // bits: 1 NaN, 2 infinity, 4 negative infinity
};
struct Picture {
  std::size_t rows = 0, columns = 0;
  std::vector<PictureCell> cells;  // row by row
};
// The last axis goes to the right, all others down. At most so many cells each way.
Picture picture_of(const Slice& slice, std::size_t most_rows, std::size_t most_columns);

}  // namespace sonde
