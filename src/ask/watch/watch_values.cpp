#include "ask/watch/watch_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <optional>

#include "ground/tensor/visit.h"
#include "ground/tensor/walk.h"

namespace sonde {
namespace {

constexpr std::size_t kLanes = 16;
constexpr std::size_t kPiece = 2048;  // elements that are widened together: their doubles stay in the first cache
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kMost = std::numeric_limits<double>::max();

template <typename Element>
void widen_each(const std::byte* data, std::size_t count, double* out) {
  for (std::size_t i = 0; i < count; ++i) {
    typename Element::Stored stored;
    std::memcpy(&stored, data + i * sizeof stored, sizeof stored);
    out[i] = static_cast<double>(Element::number(stored));
  }
}

using WidenElements = void (*)(const std::byte* data, std::size_t count, double* out);

WidenElements widen_of(DType dtype) {
  return visit(dtype, []<typename Element>(Element) -> WidenElements {
    if constexpr (std::same_as<Element, NoNumber>) {
      return nullptr;
    } else {
      return widen_each<Element>;
    }
  });
}

// Reads the elements of a view as doubles, in C order, a piece at a time.
class Pieces {
 public:
  explicit Pieces(const TensorView& view)
      : widen_(widen_of(view.dtype)),
        item_bytes_(info(view.dtype).item_bytes),
        left_(view.elements()),
        data_(view.data) {
    if (left_ > 0 && !view.is_c_contiguous()) cursor_.emplace(view);
  }

  // Returns the number of values; 0 at the end.
  std::size_t next(double* out) {
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(left_, kPiece));
    if (count == 0) return 0;
    if (cursor_) {
      cursor_->read(bytes_.data(), count);
      widen_(bytes_.data(), count, out);
    } else {
      widen_(data_, count, out);
      data_ += count * item_bytes_;
    }
    left_ -= static_cast<std::int64_t>(count);
    return count;
  }

 private:
  WidenElements widen_;
  std::size_t item_bytes_;
  std::int64_t left_;
  const std::byte* data_;
  std::optional<Cursor> cursor_;
  std::array<std::byte, kPiece * sizeof(double)> bytes_;
};

double add_lanes(double* lanes) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// Adds f(x[i]) in lanes: element i belongs to lane i % kLanes.
template <typename F>
double sum_of(std::size_t count, F f) {
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += f(i + lane);
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += f(i);
  return add_lanes(lanes);
}

bool all_finite(const double* x, std::size_t count) {
  // Adding 0 or 1 per element can be vectorised; a search cannot.
  return sum_of(count, [x](std::size_t i) { return std::abs(x[i]) <= kMost ? 0.0 : 1.0; }) == 0;
}

// Running totals over pieces.
struct Totals {
  std::uint64_t finite = 0;
  double sum = 0, abs_sum = 0;
  double mean = 0, squares = 0;  // running mean; sum of squared distances from it

  void add(const double* x, std::size_t count, ValueSummary& summary) {
    const auto n = static_cast<double>(count);
    const double piece_sum = sum_of(count, [x](std::size_t i) { return x[i]; });
    const double piece_mean = piece_sum / n;
    sum += piece_sum;
    abs_sum += sum_of(count, [x](std::size_t i) { return std::abs(x[i]); });
    summary.zero_count +=
        static_cast<std::uint64_t>(sum_of(count, [x](std::size_t i) { return x[i] == 0 ? 1.0 : 0.0; }));
    for (std::size_t i = 0; i < count; ++i) {
      summary.max = x[i] > summary.max ? x[i] : summary.max;
      summary.min = x[i] < summary.min ? x[i] : summary.min;
    }
    const double piece_squares = sum_of(count, [x, piece_mean](std::size_t i) {
      const double distance = x[i] - piece_mean;
      return distance * distance;
    });
    const auto before = static_cast<double>(finite);
    const double delta = piece_mean - mean;
    mean += delta * (n / (before + n));
    squares += piece_squares + delta * delta * before * (n / (before + n));
    finite += count;
  }
};

// Moves the finite elements to the front, counts the others, and returns the number of finite ones.
std::size_t set_aside(double* x, std::size_t count, ValueSummary& summary) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isnan(x[i])) {
      ++summary.nan_count;
    } else if (std::isinf(x[i])) {
      ++summary.inf_count;
    } else {
      x[kept++] = x[i];
    }
  }
  return kept;
}

struct PairTotals {
  double difference = 0, previous = 0;
};

bool is_close(double current, double previous, const Tolerance& tolerance) {
  if (current == previous) return true;  // infinities too
  if (std::isnan(current) && std::isnan(previous)) return tolerance.equal_nan;
  if (!std::isfinite(current) || !std::isfinite(previous)) return false;
  return std::abs(current - previous) <= tolerance.absolute + tolerance.relative * std::abs(previous);
}

}  // namespace

bool can_watch(DType dtype) { return widen_of(dtype) != nullptr; }

ValueSummary summarize_values(const TensorView& view, std::span<const ValueRange> ranges) {
  ValueSummary summary;
  summary.inside.assign(ranges.size(), 0);
  summary.max = -std::numeric_limits<double>::infinity();
  summary.min = std::numeric_limits<double>::infinity();
  Totals totals;
  Pieces pieces(view);
  alignas(64) std::array<double, kPiece> x;
  while (std::size_t count = pieces.next(x.data())) {
    summary.count += count;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const ValueRange range = ranges[r];
      summary.inside[r] += static_cast<std::uint64_t>(sum_of(count, [&x, range](std::size_t i) {
        return (int{x[i] >= range.start} & int{x[i] <= range.end}) != 0 ? 1.0 : 0.0;
      }));
    }
    if (!all_finite(x.data(), count)) count = set_aside(x.data(), count, summary);
    if (count > 0) totals.add(x.data(), count, summary);
  }
  const auto n = static_cast<double>(totals.finite);
  if (totals.finite == 0) {
    summary.max = summary.min = summary.mean = summary.abs_mean = summary.sd = kNan;
    return summary;
  }
  // The quotient is exact if the sum is; the sum of huge doubles may overflow.
  summary.mean = std::isfinite(totals.sum) ? totals.sum / n : totals.mean;
  summary.abs_mean = totals.abs_sum / n;
  summary.sd = totals.finite > 1 ? std::sqrt(totals.squares / (n - 1)) : 0;
  return summary;
}

PairSummary compare_values(const TensorView& current, const TensorView& previous,
                           std::span<const Tolerance> tolerances) {
  PairSummary summary;
  summary.all_close.assign(tolerances.size(), true);
  PairTotals totals;
  Pieces of_current(current), of_previous(previous);
  alignas(64) std::array<double, kPiece> x, y;
  std::uint64_t elements = 0;
  while (const std::size_t count = of_current.next(x.data())) {
    of_previous.next(y.data());
    elements += count;
    totals.difference += sum_of(count, [&](std::size_t i) { return std::abs(x[i] - y[i]); });
    totals.previous += sum_of(count, [&](std::size_t i) { return std::abs(y[i]); });
    for (std::size_t t = 0; t < tolerances.size(); ++t) {
      for (std::size_t i = 0; i < count && summary.all_close[t]; ++i) {
        summary.all_close[t] = is_close(x[i], y[i], tolerances[t]);
      }
    }
  }
  summary.abs_difference_mean = totals.difference / static_cast<double>(elements);
  summary.abs_previous_mean = totals.previous / static_cast<double>(elements);
  return summary;
}

}  // namespace sonde
