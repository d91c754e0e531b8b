// Kernels of bool and of integers of up to 32 bits. Compiled once per instruction set by vector.cpp.
//
// Sums of up to 16 bits are computed as integers: within a block they, and the sums of squares, are below 2^53, so
// doubles added in any order give the same result. They are added to lane 0. Squares of 32 bits do not fit a double and
// need the lanes.
#if defined(SONDE_STATS_VECTOR_INTEGER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_STATS_VECTOR_INTEGER_INL_H_
#undef SONDE_STATS_VECTOR_INTEGER_INL_H_
#else
#define SONDE_STATS_VECTOR_INTEGER_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "ground/stats/moments.h"
#include "ground/stats/vector_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Folds the extremes of a pass over integers into the moments.
template <class D>
HWY_INLINE void take_extremes(Moments& moments, D d, hn::Vec<D> max, hn::Vec<D> min) {
  HWY_ALIGN hn::TFromD<D> greatest[hn::MaxLanes(D())];
  HWY_ALIGN hn::TFromD<D> least[hn::MaxLanes(D())];
  hn::Store(max, d, greatest);
  hn::Store(min, d, least);
  moments.take_max(static_cast<double>(*std::max_element(greatest, greatest + hn::MaxLanes(d))));
  moments.take_min(static_cast<double>(*std::min_element(least, least + hn::MaxLanes(d))));
}

// The counts of a pass. An integer is never NaN, and an unsigned one is never negative.
struct SignCounts {
  std::size_t zero = 0;
  std::size_t negative = 0;

  HWY_INLINE void store(Moments& moments, std::size_t elements) const {
    moments.positive += elements - zero - negative;
    moments.negative += negative;
  }
};

template <class D>
HWY_INLINE void count_signs(SignCounts& counts, D d, hn::Vec<D> value) {
  counts.zero += hn::CountTrue(d, hn::Eq(value, hn::Zero(d)));
  if constexpr (std::is_signed_v<hn::TFromD<D>>) {
    counts.negative += hn::CountTrue(d, hn::Lt(value, hn::Zero(d)));
  }
}

HWY_INLINE V64 promote_to_double(hn::Vec<hn::Half<hn::RebindToSigned<D32>>> value) {
  return hn::PromoteTo(D64(), value);
}

HWY_INLINE V64 promote_to_double(hn::Vec<hn::Half<hn::RebindToUnsigned<D32>>> value) {
  const hn::RebindToUnsigned<D64> du;  // as the fraction of 2^52, exact
  const auto bits = hn::Or(hn::PromoteTo(du, value), hn::Set(du, 0x4330000000000000U));
  return hn::Sub(hn::BitCast(D64(), bits), hn::Set(D64(), 0x1p52));
}

template <typename T>
std::size_t add_integer32(Moments& moments, const std::byte* data, std::size_t elements) {
  const hn::Rebind<T, D32> d;
  elements -= elements % kLanes;
  Lanes lanes(moments);
  auto max = hn::Set(d, std::numeric_limits<T>::min());
  auto min = hn::Set(d, std::numeric_limits<T>::max());
  SignCounts counts;
  for (std::size_t i = 0; i < elements; i += kLanes) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors32; ++v) {
      const auto value = load_bytes(d, data + (i + v * kLanes32) * sizeof(T));
      max = hn::Max(max, value);
      min = hn::Min(min, value);
      count_signs(counts, d, value);
      lanes.add(2 * v, promote_to_double(hn::LowerHalf(value)));
      lanes.add(2 * v + 1, promote_to_double(hn::UpperHalf(hn::Half<decltype(d)>(), value)));
    }
  }
  lanes.store(moments);
  take_extremes(moments, d, max, min);
  counts.store(moments, elements);
  return elements;
}

using DI32 = hn::Repartition<std::int32_t, D64>;
using DU32 = hn::Repartition<std::uint32_t, D64>;
using DU64 = hn::Repartition<std::uint64_t, D64>;

// The sum of a vector's 32-bit lanes, exact.
HWY_INLINE std::int64_t sum_of_lanes(hn::Vec<DI32> value) {
  HWY_ALIGN std::int32_t lanes[kLanes32];
  hn::Store(value, DI32(), lanes);
  std::int64_t sum = 0;
  for (const std::int32_t lane : lanes) sum += lane;
  return sum;
}

HWY_INLINE std::int64_t sum_of_lanes(hn::Vec<DU64> value) {
  return static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(DU64(), value)));
}

// Adds the products of 16-bit lanes, exact, to 32-bit ones. NEON puts half of them into the second sum, x86 none.
HWY_INLINE hn::Vec<DI32> add_products(hn::Vec<DI32> sum, hn::Vec<D16> a, hn::Vec<D16> b) {
  auto second = hn::Zero(DI32());
  sum = hn::ReorderWidenMulAccumulate(DI32(), a, b, sum, second);
  return hn::Add(sum, second);
}

// Sums and sums of squares of 16-bit values. A pair of squares may be 2^31, which is correct as an unsigned number.
struct Sums16 {
  hn::Vec<DI32> sum;
  hn::Vec<DU64> squares;

  HWY_INLINE Sums16() : sum(hn::Zero(DI32())), squares(hn::Zero(DU64())) {}

  HWY_INLINE void add(hn::Vec<D16> value) {
    sum = add_products(sum, value, hn::Set(D16(), 1));
    const auto pairs = hn::BitCast(DU64(), add_products(hn::Zero(DI32()), value, value));
    squares = hn::Add(squares, hn::And(pairs, hn::Set(DU64(), 0xFFFFFFFFU)));
    squares = hn::Add(squares, hn::ShiftRight<32>(pairs));
  }
};

// Unsigned values are moved by 2^15 to fit the signed multiply; the sums are moved back at the end.
template <typename T>
std::size_t add_integer16(Moments& moments, const std::byte* data, std::size_t elements) {
  const hn::Rebind<T, D16> d;
  constexpr std::size_t kStep = hn::MaxLanes(D16());
  constexpr std::int64_t kShift = std::is_signed_v<T> ? 0 : 32768;
  elements -= elements % std::max(kStep, kLanes);
  auto max = hn::Set(d, std::numeric_limits<T>::min());
  auto min = hn::Set(d, std::numeric_limits<T>::max());
  SignCounts counts;
  Sums16 sums;
  for (std::size_t i = 0; i < elements; i += kStep) {
    const auto value = load_bytes(d, data + i * sizeof(T));
    max = hn::Max(max, value);
    min = hn::Min(min, value);
    count_signs(counts, d, value);
    const auto moved = hn::Xor(value, hn::Set(d, static_cast<T>(kShift)));
    sums.add(hn::BitCast(D16(), moved));
  }
  if (elements == 0) return 0;
  const auto count = static_cast<std::int64_t>(elements);
  const std::int64_t sum = sum_of_lanes(sums.sum);
  const std::int64_t squares = sum_of_lanes(sums.squares);
  moments.sum_lanes[0] += static_cast<double>(sum + kShift * count);
  moments.square_lanes[0] += static_cast<double>(squares + 2 * kShift * sum + kShift * kShift * count);
  take_extremes(moments, d, max, min);
  counts.store(moments, elements);
  return elements;
}

// Sums of squares of bytes: pairs of squares are at most 2^17, so a block's stay below 2^31 in each 32-bit lane.
template <class D>
HWY_INLINE hn::Vec<DI32> add_squares(hn::Vec<DI32> squares, D d, hn::Vec<D> value) {
  const hn::Half<D> half;
  const auto low = hn::PromoteTo(D16(), hn::LowerHalf(value));
  const auto high = hn::PromoteTo(D16(), hn::UpperHalf(half, value));
  static_cast<void>(d);
  return add_products(add_products(squares, low, low), high, high);
}

// Signed values are moved by 2^7 for the unsigned sum of bytes; the sum is moved back at the end.
template <typename T>
std::size_t add_integer8(Moments& moments, const std::byte* data, std::size_t elements) {
  const hn::Repartition<T, D64> d;
  const hn::Repartition<std::uint8_t, D64> du;
  constexpr std::size_t kStep = hn::MaxLanes(d);
  constexpr std::uint8_t kShift = std::is_signed_v<T> ? 128 : 0;
  elements -= elements % kStep;
  auto max = hn::Set(d, std::numeric_limits<T>::min());
  auto min = hn::Set(d, std::numeric_limits<T>::max());
  SignCounts counts;
  auto sum = hn::Zero(DU64());
  auto squares = hn::Zero(DI32());
  for (std::size_t i = 0; i < elements; i += kStep) {
    const auto value = load_bytes(d, data + i);
    max = hn::Max(max, value);
    min = hn::Min(min, value);
    count_signs(counts, d, value);
    sum = hn::Add(sum, hn::SumsOf8(hn::Xor(hn::BitCast(du, value), hn::Set(du, kShift))));
    squares = add_squares(squares, d, value);
  }
  if (elements == 0) return 0;
  const auto moved_by = static_cast<std::int64_t>(elements) * kShift;
  moments.sum_lanes[0] += static_cast<double>(sum_of_lanes(sum) - moved_by);
  moments.square_lanes[0] += static_cast<double>(sum_of_lanes(squares));
  take_extremes(moments, d, max, min);
  counts.store(moments, elements);
  return elements;
}

inline std::size_t add_bool(Moments& moments, const std::byte* data, std::size_t elements) {
  const hn::Repartition<std::uint8_t, D64> d;
  constexpr std::size_t kStep = hn::MaxLanes(d);
  elements -= elements % kStep;
  if (elements == 0) return 0;
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < elements; i += kStep) {
    zeros += hn::CountTrue(d, hn::Eq(load_bytes(d, data + i), hn::Zero(d)));
  }
  const std::size_t ones = elements - zeros;
  moments.positive += ones;
  moments.sum_lanes[0] += static_cast<double>(ones);
  moments.square_lanes[0] += static_cast<double>(ones);
  moments.take_max(ones > 0 ? 1.0 : 0.0);
  moments.take_min(zeros > 0 ? 0.0 : 1.0);
  return elements;
}

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#endif
