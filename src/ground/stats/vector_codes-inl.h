// The extremes and the counts of signs of floats, on their bits. Compiled once per instruction set by vector.cpp.
#if defined(SONDE_STATS_VECTOR_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_STATS_VECTOR_CODES_INL_H_
#undef SONDE_STATS_VECTOR_CODES_INL_H_
#else
#define SONDE_STATS_VECTOR_CODES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ground/stats/moments.h"

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::ScalableTag<double>;
using V64 = hn::Vec<D64>;
using D32 = hn::Repartition<float, D64>;
using V32 = hn::Vec<D32>;
using D16 = hn::Repartition<std::int16_t, D64>;
using V16 = hn::Vec<D16>;
using D8 = hn::Repartition<std::int8_t, D64>;
using V8 = hn::Vec<D8>;

// Two vectors as one of numbers half as wide, in any order. What does not fit becomes the greatest or the least number,
// so that sign and zero stay.
HWY_INLINE V16 saturate(hn::Vec<hn::Repartition<std::int32_t, D64>> a, hn::Vec<hn::Repartition<std::int32_t, D64>> b) {
  return hn::ReorderDemote2To(D16(), a, b);
}

HWY_INLINE V8 saturate(V16 a, V16 b) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86  // Highway has no function for it before 1.1
  return V8{_mm512_packs_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_AVX2
  return V8{_mm256_packs_epi16(a.raw, b.raw)};
#else
  const hn::Half<D8> half;
  return hn::Combine(D8(), hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

// Of finite floats that are stored as Code: a sign, then a magnitude in the order of the values. Three integer
// comparisons give both extremes with the sign of a zero, and one comparison of bytes counts a whole vector of them.
template <typename Code>
struct SignedCodes {
  using DI = hn::Repartition<Code, D64>;
  using DU = hn::RebindToUnsigned<DI>;
  using VI = hn::Vec<DI>;

  VI greatest, least;             // as signed numbers: negative floats are in reverse order, -0 is the least number
  hn::Vec<DU> greatest_unsigned;  // the most negative float, if there is a sign
  std::uint64_t signs = 0;        // elements with a sign bit, -0 included
  std::uint64_t zeros = 0;        // +0

  HWY_INLINE SignedCodes() {
    greatest = hn::Set(DI(), std::numeric_limits<Code>::min());
    least = hn::Set(DI(), std::numeric_limits<Code>::max());
    greatest_unsigned = hn::Zero(DU());
  }

  HWY_INLINE void compare(VI codes) {
    greatest = hn::Max(greatest, codes);
    least = hn::Min(least, codes);
    greatest_unsigned = hn::Max(greatest_unsigned, hn::BitCast(DU(), codes));
  }

  // The codes, saturated to bytes.
  HWY_INLINE void count(V8 bytes) {
#if HWY_TARGET <= HWY_AVX3  // has an instruction that takes the sign bits
    signs += hn::CountTrue(D8(), hn::MaskFromVec(bytes));
#else
    signs += hn::CountTrue(D8(), hn::Lt(bytes, hn::Zero(D8())));
#endif
    zeros += hn::CountTrue(D8(), hn::Eq(bytes, hn::Zero(D8())));
  }

  HWY_INLINE Code top() const {
    return reduced(greatest, [](Code a, Code b) { return a > b; });
  }
  HWY_INLINE Code bottom() const {
    return reduced(least, [](Code a, Code b) { return a < b; });
  }
  HWY_INLINE Code most_negative() const {
    using Unsigned = std::make_unsigned_t<Code>;
    return reduced(hn::BitCast(DI(), greatest_unsigned),
                   [](Code a, Code b) { return static_cast<Unsigned>(a) > static_cast<Unsigned>(b); });
  }

  // `data`: the elements once more, read only if one of them is -0. Value::of gives the number of a code.
  template <class Value>
  HWY_INLINE void store(Moments& moments, const std::byte* data, std::size_t elements) const {
    const Code first = top();
    const Code last = bottom();
    moments.take_max(Value::of(first >= 0 ? first : last));
    moments.take_min(Value::of(last >= 0 ? last : most_negative()));
    std::uint64_t negative_zeros = 0;
    if (last == std::numeric_limits<Code>::min()) {
      for (std::size_t i = 0; i < elements; i += hn::Lanes(DI())) {
        const VI codes = hn::LoadU(DI(), reinterpret_cast<const Code*>(data + i * sizeof(Code)));
        negative_zeros += hn::CountTrue(DI(), hn::Eq(codes, hn::Set(DI(), last)));
      }
    }
    moments.negative += signs - negative_zeros;
    moments.positive += elements - signs - zeros;
  }

 private:
  template <class Before>
  static HWY_INLINE Code reduced(VI codes, Before before) {
    HWY_ALIGN Code lanes[hn::MaxLanes(DI())];
    hn::Store(codes, DI(), lanes);
    Code found = lanes[0];
    for (const Code lane : lanes) found = before(lane, found) ? lane : found;
    return found;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#endif
