// The reference: one element at a time, in plain C++. Every other kernel must give the same result.
#include <cmath>
#include <cstring>
#include <utility>

#include "ground/stats/kernels.h"
#include "ground/stats/narrow_values.h"

namespace sonde {
namespace {

template <typename T>
struct Plain {
  using Stored = T;
  static double widen(T value) { return static_cast<double>(value); }
};

struct Bool {  // any byte but 0 is true
  using Stored = std::uint8_t;
  static double widen(std::uint8_t value) { return value != 0 ? 1.0 : 0.0; }
};

struct Float8E8M0 {
  using Stored = std::uint8_t;
  static double widen(std::uint8_t code) { return float8_value<DType::float8_e8m0fnu>(code); }
};

// Returns whether it is finite, so that it has a part in the sums.
bool count_element(Moments& moments, double value) {
  if (std::isnan(value)) {
    ++moments.nan;
    return false;
  }
  if (value > 0) ++moments.positive;
  if (value < 0) ++moments.negative;
  if (std::isinf(value)) {
    ++(value > 0 ? moments.positive_inf : moments.negative_inf);
    return false;
  }
  moments.take_max(value);
  moments.take_min(value);
  return true;
}

void add_element(Moments& moments, std::size_t lane, double value) {
  if (!count_element(moments, value)) return;
  moments.sum_lanes[lane] += value;
  const double square = value * value;
  moments.square_lanes[lane] += square;
}

// Adds the sums of the group to the lanes.
void finish_group(Moments& moments) {
  if (!std::exchange(moments.has_group, false)) return;
  const GroupSums& group = moments.group;
  for (std::size_t k = 0; k < kLanes; ++k) {
    const float squares = group.squares[0][k] + group.squares[1][k];
    const bool has_room = squares >= kLeastGroupSquares && squares <= kMostGroupSquares;
    const float sum = group.sum[0][k] + group.sum[1][k];
    moments.sum_lanes[k] += has_room ? static_cast<double>(sum) : group.exact_sum[k];
    moments.square_lanes[k] += has_room ? static_cast<double>(squares) : group.exact_squares[k];
  }
}

void add_to_group(Moments& moments, std::size_t lane, std::size_t half, double value) {
  GroupSums& group = moments.group;
  const auto narrow = static_cast<float>(value);
  group.sum[half][lane] += narrow;
  const float square = narrow * narrow;
  group.squares[half][lane] += square;
  group.exact_sum[lane] += value;
  group.exact_squares[lane] += value * value;
}

template <typename Stored, bool kNeighbours, double (*kWiden)(std::uint32_t code)>
std::size_t add_grouped(Moments& moments, const std::byte* data, std::size_t elements) {
  for (std::size_t i = 0; i < elements; ++i) {
    Stored stored;
    std::memcpy(&stored, data + i * sizeof(Stored), sizeof(Stored));
    if (!std::exchange(moments.has_group, true)) moments.group = {};
    const std::size_t place = (moments.count + i) % kGroupElements;
    const std::size_t column = place % (2 * kLanes);
    const double value = kWiden(stored);
    if (count_element(moments, value)) {
      add_to_group(moments, kNeighbours ? column / 2 : column % kLanes, kNeighbours ? column % 2 : column / kLanes,
                   value);
    }
    if (place + 1 == kGroupElements) finish_group(moments);
  }
  return elements;
}

template <typename Element>
std::size_t add_scalar(Moments& moments, const std::byte* data, std::size_t elements) {
  using Stored = typename Element::Stored;
  for (std::size_t i = 0; i < elements; ++i) {
    Stored stored;
    std::memcpy(&stored, data + i * sizeof(Stored), sizeof(Stored));
    add_element(moments, (moments.count + i) % kLanes, Element::widen(stored));
  }
  return elements;
}

constexpr Kernel make_scalar_kernel() {
  Kernel kernel = {"scalar", {}};
  const auto set = [&kernel](DType dtype, AddElements add) { kernel.add[static_cast<std::size_t>(dtype)] = add; };
  set(DType::bool8, add_scalar<Bool>);
  set(DType::int8, add_scalar<Plain<std::int8_t>>);
  set(DType::int16, add_scalar<Plain<std::int16_t>>);
  set(DType::int32, add_scalar<Plain<std::int32_t>>);
  set(DType::int64, add_scalar<Plain<std::int64_t>>);
  set(DType::uint8, add_scalar<Plain<std::uint8_t>>);
  set(DType::uint16, add_scalar<Plain<std::uint16_t>>);
  set(DType::uint32, add_scalar<Plain<std::uint32_t>>);
  set(DType::uint64, add_scalar<Plain<std::uint64_t>>);
  set(DType::float16, add_grouped<std::uint16_t, false, float16_value>);
  set(DType::float32, add_scalar<Plain<float>>);
  set(DType::float64, add_scalar<Plain<double>>);
  set(DType::bfloat16, add_grouped<std::uint16_t, true, bfloat16_value>);
  set(DType::float8_e4m3fn, add_grouped<std::uint8_t, false, float8_value<DType::float8_e4m3fn>>);
  set(DType::float8_e5m2, add_grouped<std::uint8_t, false, float8_value<DType::float8_e5m2>>);
  set(DType::float8_e4m3fnuz, add_grouped<std::uint8_t, false, float8_value<DType::float8_e4m3fnuz>>);
  set(DType::float8_e5m2fnuz, add_grouped<std::uint8_t, false, float8_value<DType::float8_e5m2fnuz>>);
  set(DType::float8_e8m0fnu, add_scalar<Float8E8M0>);
  set(DType::qint8, add_scalar<Plain<std::int8_t>>);
  set(DType::quint8, add_scalar<Plain<std::uint8_t>>);
  set(DType::qint32, add_scalar<Plain<std::int32_t>>);
  return kernel;
}

double take_lanes(double* lanes) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  const double sum = lanes[0];
  std::fill_n(lanes, kLanes, 0.0);
  return sum;
}

}  // namespace

const Kernel& scalar_kernel() {
  static constexpr Kernel kKernel = make_scalar_kernel();
  return kKernel;
}

BlockSums take_block(Moments& moments) {
  finish_group(moments);
  const double sum = take_lanes(moments.sum_lanes);
  return {sum, take_lanes(moments.square_lanes)};
}

void add_counts(Moments& total, const Moments& part) {
  total.count += part.count;
  total.nan += part.nan;
  total.positive_inf += part.positive_inf;
  total.negative_inf += part.negative_inf;
  total.positive += part.positive;
  total.negative += part.negative;
  total.take_max(part.max);
  total.take_min(part.min);
}

Statistics finish(Moments& moments) {
  finish_block(moments);
  Statistics found;
  found.count = moments.count;
  found.nan_count = moments.nan;
  found.positive_inf_count = moments.positive_inf;
  found.negative_inf_count = moments.negative_inf;
  found.positive_count = moments.positive;
  found.negative_count = moments.negative;
  found.zero_count = moments.count - moments.nan - moments.positive - moments.negative;
  if (found.finite_count() == 0) return found;
  found.max = moments.max;
  found.min = moments.min;
  // Sums of huge doubles may have overflowed both ways; the sign of that NaN has no meaning.
  found.sum = std::isnan(moments.sum) ? std::numeric_limits<double>::quiet_NaN() : moments.sum;
  found.sum_squares = moments.squares;
  return found;
}

}  // namespace sonde
