#include "ask/headroom/magnitudes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "read/measure/values.h"

namespace sonde {
namespace {

constexpr std::size_t kBlock = 32;  // elements with one scale, as in OCP's Microscaling Formats
constexpr std::size_t kRead = 128 * kBlock;

// The largest power of two with which no element overflows.
double scale_of_block(double largest, const NumberFormat& format) {
  if (largest == 0) return 1;
  return std::exp2(std::floor(std::log2(format.largest) - std::log2(largest)));
}

double scale_of_tensor(double largest, const NumberFormat& format) {
  return largest == 0 ? 1 : format.largest / largest;
}

struct Counts {
  std::uint64_t beyond = 0, lost = 0, subnormal = 0;
};

// With `scale`, a product is not beyond the largest number but for its own rounding.
void count(std::span<const double> values, const NumberFormat& format, double scale, Counts& to) {
  for (const double value : values) {
    const double magnitude = std::fabs(value) * scale;
    if (!std::isfinite(value) || magnitude == 0) continue;
    if (format.overflows(magnitude)) {
      ++to.beyond;
    } else if (format.loses(magnitude)) {
      ++to.lost;
    } else if (magnitude < format.normal) {
      ++to.subnormal;
    }
  }
}

double largest_of(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

void count_in_blocks(std::span<const double> row, const NumberFormat& format, Counts& to) {
  for (std::size_t first = 0; first < row.size(); first += kBlock) {
    const std::span<const double> block = row.subspan(first, std::min(kBlock, row.size() - first));
    count(block, format, scale_of_block(largest_of(block), format), to);
  }
}

// Calls use(values) for pieces of the tensor in C order; with blocks a piece ends where a row of the last axis ends.
template <typename Use>
void for_each_piece(const TensorView& view, bool in_rows, const Use& use) {
  ValueReader reader(view);
  std::array<double, kRead> values;
  const std::size_t row = view.shape.empty() ? 1 : static_cast<std::size_t>(view.shape.back());
  std::size_t done = 0;  // of the row
  for (;;) {
    const std::size_t wanted = in_rows ? std::min(kRead, row - done) : kRead;
    const std::size_t found = reader.read(std::span(values).first(wanted));
    if (found == 0) return;
    use(std::span<const double>(values).first(found));
    done = (done + found) % row;
  }
}

void add_range(std::span<const double> values, Magnitudes& to) {
  for (const double value : values) {
    const double magnitude = std::fabs(value);
    if (std::isinf(value)) ++to.infinite_count;
    if (!std::isfinite(value)) continue;
    to.largest = std::max(to.largest.value_or(0), magnitude);
    if (magnitude > 0) to.least = std::min(to.least.value_or(magnitude), magnitude);
  }
}

// All elements keep their digits, so that none need be counted.
bool holds_all(const Magnitudes& of, const NumberFormat& format) {
  return !format.overflows(of.largest.value_or(0)) && of.least.value_or(format.normal) >= format.normal;
}

}  // namespace

Magnitudes magnitudes_of(const TensorView& view, std::span<const NumberFormat* const> formats, HeadroomScale scale) {
  Magnitudes all{.from_values = true, .elements = static_cast<std::uint64_t>(view.elements())};
  if (all.elements > 0) for_each_piece(view, false, [&](std::span<const double> values) { add_range(values, all); });
  const double largest = all.largest.value_or(0);
  for (const NumberFormat* format : formats) {
    Counts counts;
    if (all.elements > 0 && scale == HeadroomScale::block) {
      for_each_piece(view, true, [&](std::span<const double> row) { count_in_blocks(row, *format, counts); });
    } else if (all.elements > 0 && (scale == HeadroomScale::tensor || !holds_all(all, *format))) {
      const double by = scale == HeadroomScale::tensor ? scale_of_tensor(largest, *format) : 1;
      for_each_piece(view, false, [&](std::span<const double> values) { count(values, *format, by, counts); });
    }
    all.as_types.push_back({counts.beyond > 0, counts.beyond, counts.lost, counts.subnormal});
  }
  return all;
}

Magnitudes magnitudes_of(const KnownStatistics& statistics, std::span<const NumberFormat* const> formats,
                         HeadroomScale scale) {
  Magnitudes all{.elements = statistics.count.value_or(0), .infinite_count = statistics.infinity_count()};
  const double max = statistics.max.value_or(NAN), min = statistics.min.value_or(NAN);
  if (std::isfinite(max) && std::isfinite(min)) {
    all.largest = std::max(std::fabs(max), std::fabs(min));
    if (min > 0 || max < 0) all.least = std::min(std::fabs(max), std::fabs(min));
    if (all.largest == 0.0) all.least.reset();
  }
  for (const NumberFormat* format : formats) {
    LostElements lost;
    if (scale != HeadroomScale::none || (all.largest && !format->overflows(*all.largest))) lost.overflow_count = 0;
    lost.overflows = scale == HeadroomScale::none && all.largest && format->overflows(*all.largest);
    // Of numbers with one sign the least is known; of zeros there is nothing to lose.
    const double by = scale == HeadroomScale::tensor ? scale_of_tensor(all.largest.value_or(0), *format) : 1;
    const bool is_kept = all.least && scale != HeadroomScale::block && *all.least * by >= format->normal;
    if (is_kept || all.largest == 0.0) lost.underflow_count = lost.subnormal_count = 0;
    all.as_types.push_back(lost);
  }
  return all;
}

}  // namespace sonde
