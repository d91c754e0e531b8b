// The quick pass over floats of 8 bits, by way of float16, for instruction sets that widen float16. Compiled once per
// instruction set by vector.cpp.
#if defined(SONDE_STATS_VECTOR_FLOAT8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_STATS_VECTOR_FLOAT8_INL_H_
#undef SONDE_STATS_VECTOR_FLOAT8_INL_H_
#else
#define SONDE_STATS_VECTOR_FLOAT8_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <iterator>

#include "ground/stats/moments.h"
#include "ground/stats/narrow_values.h"
#include "ground/stats/vector_narrow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Codes with the sign and the fields of a float16 that has fewer bits of each: the float16 is the number times a power of
// two, and so are sums. Floats round scaled sums in the same way, as none of them leaves their range.
template <int kFractionBits, int kBias>
struct HalfOf {
  static constexpr std::size_t kItemBytes = 1;
  static constexpr float kScale = kBias < 15 ? 1U << (15 - kBias) : 1.0F / (1U << (kBias - 15));

  static HWY_INLINE V32 load(const std::byte* data) {
    const hn::Rebind<std::int16_t, D32> wide;
    const auto codes = hn::PromoteTo(wide, load_bytes(hn::Rebind<std::int8_t, D32>(), data));
    auto half = hn::ShiftLeft<10 - kFractionBits>(codes);
    // The sign fills the bits above it, which are one of the exponent's if that has fewer bits.
    if constexpr (kFractionBits == 3) half = hn::And(half, hn::Set(wide, static_cast<std::int16_t>(0xBFFF)));
    return hn::PromoteTo(D32(), hn::BitCast(hn::Rebind<hwy::float16_t, D32>(), half));
  }
};

// kMost: the greatest magnitude that a float16 takes. Codes are counted as numbers with a sign.
template <int kFractionBits, int kBias, int kMost, bool kMinusZeroIsNan>
struct QuickFloat8 : HalfOf<kFractionBits, kBias> {
  static HWY_INLINE bool takes(const SignedCodes<std::int8_t>& found) {
    if (kMinusZeroIsNan && found.bottom() == -128) return false;
    return found.top() <= kMost && static_cast<std::uint8_t>(found.most_negative()) <= 0x80 + kMost;
  }
};

#if HWY_TARGET <= HWY_AVX2
template <class Load>
struct Quick;  // by the Load that takes any code
template <>
struct Quick<LoadFloat8E4M3FN> : QuickFloat8<3, 7, 0x7E, false> {};
template <>
struct Quick<LoadFloat8E5M2> : QuickFloat8<2, 15, 0x7B, false> {};
template <>
struct Quick<LoadFloat8E4M3FNUZ> : QuickFloat8<3, 8, 0x7F, true> {};
template <>
struct Quick<LoadFloat8E5M2FNUZ> : QuickFloat8<2, 16, 0x7B, true> {};

// Exponents of positive numbers: their order is that of the codes, and a double has room for each. In steps of kQuickStep
// elements; stores nothing and returns false if one of them is NaN.
HWY_INLINE bool pass_exponents(Moments& moments, const std::byte* data, std::size_t elements) {
  const hn::RebindToUnsigned<D8> d8;
  const hn::RebindToUnsigned<D64> d64;
  Lanes lanes(moments);
  auto greatest = hn::Zero(d8);
  auto least = hn::Set(d8, 0xFF);
  for (std::size_t i = 0; i < elements; i += kQuickStep) {
    prefetch_ahead<kQuickStep>(data + i);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < 4 * kVectors64; ++v) {
      const auto codes = load_bytes(hn::Rebind<std::uint8_t, D64>(), data + i + v * kLanes64);
      const auto wide = hn::PromoteTo(d64, hn::PromoteTo(hn::Rebind<std::uint32_t, D64>(), codes));
      lanes.add_short(v % kVectors64, hn::BitCast(D64(), hn::ShiftLeft<52>(hn::Add(wide, hn::Set(d64, 1023 - 127)))));
    }
    for (std::size_t at = 0; at < kQuickStep; at += hn::MaxLanes(d8)) {
      const auto codes = load_bytes(d8, data + i + at);
      greatest = hn::Max(greatest, codes);
      least = hn::Min(least, codes);
    }
  }
  HWY_ALIGN std::uint8_t most[hn::MaxLanes(d8)], fewest[hn::MaxLanes(d8)];
  hn::Store(greatest, d8, most);
  hn::Store(least, d8, fewest);
  const std::uint8_t top = *std::max_element(std::begin(most), std::end(most));
  if (top == 0xFF) return false;
  lanes.store(moments);
  moments.take_max(float8_value<DType::float8_e8m0fnu>(top));
  moments.take_min(float8_value<DType::float8_e8m0fnu>(*std::min_element(std::begin(fewest), std::end(fewest))));
  moments.positive += elements;
  return true;
}

// Stores nothing and returns false if an element does not fit. Squares never need doubles, since the least is 2^-34.
template <class Rows, class Value>
HWY_INLINE bool pass_float8(Moments& moments, const std::byte* data, std::size_t elements) {
  Lanes lanes(moments);
  SignedCodes<std::int8_t> found;
  for (std::size_t i = 0; i < elements; i += kGroupElements) {
    Group group;
    add_rows<RowOf<Rows>>(group, data + i);
    add_codes<std::int8_t>(found, data + i);
    V32 sum[kVectors32], squares[kVectors32];
    group.finish(sum, squares);
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors32; ++v) {
      sum[v] = hn::Mul(sum[v], hn::Set(D32(), Rows::kScale));
      squares[v] = hn::Mul(squares[v], hn::Set(D32(), Rows::kScale * Rows::kScale));
    }
    add_floats(lanes, sum, squares);
  }
  if (!Rows::takes(found)) return false;
  lanes.store(moments);
  found.template store<Value>(moments, data, elements);
  return true;
}
#endif

template <class Load, double (*kWiden)(std::uint32_t code)>
std::size_t add_float8(Moments& moments, const std::byte* data, std::size_t elements) {
#if HWY_TARGET <= HWY_AVX2
  const std::size_t whole = elements - elements % kGroupElements;
  if (moments.expect_finite && whole != 0 && pass_float8<Quick<Load>, ValueOf<kWiden>>(moments, data, whole))
    return whole;
#endif
  return add_narrow<Load, std::int8_t, kWiden>(moments, data, elements);
}

inline std::size_t add_exponents(Moments& moments, const std::byte* data, std::size_t elements) {
#if HWY_TARGET <= HWY_AVX2
  const std::size_t whole = elements - elements % kQuickStep;
  if (moments.expect_finite && whole != 0 && pass_exponents(moments, data, whole)) return whole;
#endif
  return add_float32<LoadFloat8E8M0>(moments, data, elements);
}

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#endif
