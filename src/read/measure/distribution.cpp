#include "read/measure/distribution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "ground/base/parallel.h"
#include "read/measure/values.h"

namespace sonde {
namespace {

constexpr std::int64_t kBlock = 1 << 18;  // elements that one thread takes at a time

// Calls `take` with the elements at place, place + stride, … as numbers.
template <typename Take>
void for_values(const TensorView& view, std::int64_t place, std::int64_t stride, std::int64_t count, const Take& take) {
  if (view.dtype == DType::float32 && !view.negative) {
    for (std::int64_t i = 0; i < count; ++i) {
      float value = 0;
      std::memcpy(&value, view.data + (place + i * stride) * std::int64_t{sizeof value}, sizeof value);
      take(static_cast<double>(value));
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) take(element_magnitude(view, place + i * stride));
}

// Blocks of a tensor whose elements fill one piece of memory, on all cores; `join` is called by one thread at a time.
template <typename Part, typename Take>
Part over_blocks(const TensorView& view, const Part& empty, const Take& take) {
  const std::int64_t elements = view.elements();
  const auto blocks = static_cast<std::size_t>((elements + kBlock - 1) / kBlock);
  Part all = empty;
  std::mutex mutex;
  Threads(blocks < 2 ? 1 : 0).for_each(blocks, [&](std::size_t block) {
    Part part = empty;
    const std::int64_t first = static_cast<std::int64_t>(block) * kBlock;
    for_values(view, first, 1, std::min(kBlock, elements - first), [&](double value) { take(part, value); });
    const std::lock_guard lock(mutex);
    all.join(part);
  });
  return all;
}

struct Range {
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();
  double smallest = std::numeric_limits<double>::infinity();  // magnitude above 0
  double smallest_positive = std::numeric_limits<double>::infinity();

  void join(const Range& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    smallest = std::min(smallest, other.smallest);
    smallest_positive = std::min(smallest_positive, other.smallest_positive);
  }
};

Range range_of(const TensorView& view) {
  return over_blocks(view, Range(), [](Range& range, double value) {
    if (!std::isfinite(value)) return;
    range.min = std::min(range.min, value);
    range.max = std::max(range.max, value);
    if (value == 0) return;
    range.smallest = std::min(range.smallest, std::abs(value));
    if (value > 0) range.smallest_positive = std::min(range.smallest_positive, value);
  });
}

// A value on the axis of a scale, and back.
struct Axis {
  BinScale scale = BinScale::linear;
  double unit = 1;  // of symlog
  double from = 0, to = 1;
  std::size_t bins = 1;

  double on(double value) const {
    if (scale == BinScale::log) return std::log(value);
    return scale == BinScale::symlog ? std::asinh(value / unit) : value / 2;  // halves: the range stays finite
  }
  double back(double at) const {
    if (scale == BinScale::log) return std::exp(at);
    return scale == BinScale::symlog ? std::sinh(at) * unit : at * 2;
  }
  double edge(std::size_t i) const {
    return back(from + (to - from) * (static_cast<double>(i) / static_cast<double>(bins)));
  }
};

struct Counts : Distribution {
  void join(const Counts& other) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    below += other.below;
    above += other.above;
    zero_count += other.zero_count;
    non_finite += other.non_finite;
  }
};

struct Edges {
  double min = 0, max = 0;
  bool any = false;
};

Edges edges_of(const Range& range, const DistributionOptions& options) {
  Edges edges;
  const bool is_log = options.scale == BinScale::log;
  const double lowest = is_log ? range.smallest_positive : range.min;
  edges.min = options.min.value_or(lowest);
  edges.max = options.max.value_or(range.max);
  edges.any =
      std::isfinite(edges.min) && std::isfinite(edges.max) && edges.min <= edges.max && (!is_log || edges.min > 0);
  return edges;
}

}  // namespace

Distribution distribution_of(const TensorView& view, const DistributionOptions& options) {
  const Range range = range_of(view);
  const Edges edges = edges_of(range, options);
  Axis axis;
  axis.scale = options.scale;
  axis.unit = std::max(range.smallest, std::max(std::abs(range.min), std::abs(range.max)) * 1e-12);
  if (!std::isfinite(axis.unit) || axis.unit <= 0) axis.unit = 1;
  axis.bins = edges.min == edges.max ? 1 : options.bins;
  if (edges.any) {
    axis.from = axis.on(edges.min);
    axis.to = axis.on(edges.max);
  }
  Counts empty;
  if (edges.any) empty.counts.assign(axis.bins, 0);
  Counts counts = over_blocks(view, empty, [&](Counts& part, double value) {
    if (!std::isfinite(value)) {
      part.non_finite.count(value);
    } else {
      part.zero_count += value == 0 ? 1 : 0;
      if (part.counts.empty() || value < edges.min) {
        ++part.below;
      } else if (value > edges.max) {
        ++part.above;
      } else {
        const double at = axis.bins == 1 ? 0 : (axis.on(value) - axis.from) / (axis.to - axis.from);
        const auto bin = static_cast<std::size_t>(std::max(0.0, at) * static_cast<double>(axis.bins));
        ++part.counts[std::min(bin, axis.bins - 1)];
      }
    }
  });
  for (std::size_t i = 0; edges.any && i <= axis.bins; ++i) counts.edges.push_back(axis.edge(i));
  if (edges.any) {  // as they were asked for, whatever the way there and back rounds
    counts.edges.front() = edges.min;
    counts.edges.back() = edges.max;
  }
  return counts;
}

namespace {

struct PictureSum {
  PictureCell cell;
  double sum = 0;

  void add(double value) {
    if (std::isnan(value)) {
      cell.bad |= 1;
    } else if (std::isinf(value)) {
      cell.bad |= value > 0 ? 2 : 4;
    } else {
      cell.min = cell.finite == 0 ? value : std::min(cell.min, value);
      cell.max = cell.finite == 0 ? value : std::max(cell.max, value);
      ++cell.finite;
      sum += value;
    }
  }
};

}  // namespace

Picture picture_of(const Slice& slice, std::size_t most_rows, std::size_t most_columns) {
  const std::int64_t elements = slice.elements();
  const std::int64_t width = slice.shape.empty() ? 1 : slice.shape.back();
  Picture picture;
  if (elements == 0) return picture;
  const std::int64_t height = elements / width;
  const std::int64_t stride = slice.strides.empty() ? 1 : slice.strides.back();
  const auto rows = std::min(height, static_cast<std::int64_t>(most_rows));
  const auto columns = std::min(width, static_cast<std::int64_t>(most_columns));
  picture.rows = static_cast<std::size_t>(rows);
  picture.columns = static_cast<std::size_t>(columns);
  picture.cells.resize(picture.rows * picture.columns);
  Threads(elements < kBlock ? 1 : 0).for_each(picture.rows, [&](std::size_t number) {
    const auto row = static_cast<std::int64_t>(number);
    std::vector<PictureSum> sums(picture.columns);
    for (std::int64_t y = row * height / rows; y < (row + 1) * height / rows; ++y) {
      const std::int64_t begin = slice.place_of(y * width);
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t first = column * width / columns, end = (column + 1) * width / columns;
        PictureSum& sum = sums[static_cast<std::size_t>(column)];
        for_values(slice.whole, begin + first * stride, stride, end - first, [&](double value) { sum.add(value); });
      }
    }
    for (std::size_t column = 0; column < picture.columns; ++column) {
      PictureCell& cell = picture.cells[number * picture.columns + column];
      cell = sums[column].cell;
      if (cell.finite > 0) cell.mean = sums[column].sum / static_cast<double>(cell.finite);
    }
  });
  return picture;
}

}  // namespace sonde
