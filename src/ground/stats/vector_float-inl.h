// Kernels of the floating types and of 64-bit integers. Compiled once per instruction set by vector.cpp.
#if defined(SONDE_STATS_VECTOR_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_STATS_VECTOR_FLOAT_INL_H_
#undef SONDE_STATS_VECTOR_FLOAT_INL_H_
#else
#define SONDE_STATS_VECTOR_FLOAT_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <type_traits>

#include "ground/stats/moments.h"
#include "ground/stats/vector_codes-inl.h"
#include "ground/tensor/small_floats.h"

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kLanes64 = hn::MaxLanes(D64());
constexpr std::size_t kLanes32 = hn::MaxLanes(D32());
constexpr std::size_t kVectors64 = kLanes / kLanes64;  // the vectors of one set of lanes
constexpr std::size_t kVectors32 = kLanes / kLanes32;
static_assert(kVectors32 >= 1 && kVectors32 * kLanes32 == kLanes);

// Fetches `kBytes` that are read a little later into the second-level cache: the processor's own prefetch leaves a
// kernel that computes waiting for a third of the time. Any address is allowed.
template <std::size_t kBytes>
HWY_INLINE void prefetch_ahead(const std::byte* data) {
#pragma GCC unroll 8
  for (std::size_t at = 0; at < kBytes; at += 64) __builtin_prefetch(data + kPrefetchAhead + at, 0, 2);
}

// The lanes of the sums, in registers.
struct Lanes {
  V64 sum[kVectors64];
  V64 squares[kVectors64];

  HWY_INLINE explicit Lanes(const Moments& moments) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors64; ++v) {
      sum[v] = hn::Load(D64(), moments.sum_lanes + v * kLanes64);
      squares[v] = hn::Load(D64(), moments.square_lanes + v * kLanes64);
    }
  }

  HWY_INLINE void store(Moments& moments) const {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors64; ++v) {
      hn::Store(sum[v], D64(), moments.sum_lanes + v * kLanes64);
      hn::Store(squares[v], D64(), moments.square_lanes + v * kLanes64);
    }
  }

  HWY_INLINE void add(std::size_t v, V64 value) {
    sum[v] = hn::Add(sum[v], value);
    squares[v] = hn::Add(squares[v], hn::Mul(value, value));
  }

  // For values of at most 26 significant bits: their squares are exact, so that fusing changes nothing.
  HWY_INLINE void add_short(std::size_t v, V64 value) {
    sum[v] = hn::Add(sum[v], value);
    squares[v] = hn::MulAdd(value, value, squares[v]);
  }

  // Also false when a square of a finite double overflowed.
  HWY_INLINE bool squares_are_finite() const {
    auto all = hn::IsFinite(squares[0]);
#pragma GCC unroll 8
    for (std::size_t v = 1; v < kVectors64; ++v) all = hn::And(all, hn::IsFinite(squares[v]));
    return hn::AllTrue(D64(), all);
  }
};

// Adds 1 to each lane of the counter where the mask is true.
template <class DI>
HWY_INLINE void count_true(hn::Vec<DI>& counter, hn::Mask<DI> mask) {
#if HWY_TARGET <= HWY_AVX3  // one masked addition
  counter = hn::IfThenElse(mask, hn::Add(counter, hn::Set(DI(), 1)), counter);
#else  // a true lane is -1
  counter = hn::Sub(counter, hn::VecFromMask(DI(), mask));
#endif
}

// The results of a pass besides the sums. D is the tag of the vectors that are compared.
template <class D>
struct Found {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

  V max, min;
  VI any_bits;                                             // sign bit set: some value is negative or -0
  VI all_bits;                                             // sign bit clear: some value is positive or +0
  VI positive, negative, nan, positive_inf, negative_inf;  // how many, per lane

  // Not default member initialisers: those would be compiled for the baseline instruction set.
  HWY_INLINE Found() {
    max = hn::Set(D(), -std::numeric_limits<T>::infinity());
    min = hn::Set(D(), std::numeric_limits<T>::infinity());
    any_bits = hn::Zero(DI());
    all_bits = hn::Set(DI(), -1);
    positive = negative = nan = positive_inf = negative_inf = hn::Zero(DI());
  }

  template <class M>
  static HWY_INLINE void count(VI& counter, M mask) {
    count_true<DI>(counter, hn::RebindMask(DI(), mask));
  }

  HWY_INLINE void add_finite(V value) {
    const D d;
    count(positive, hn::Gt(value, hn::Zero(d)));
    count(negative, hn::Lt(value, hn::Zero(d)));
    max = hn::Max(max, value);
    min = hn::Min(min, value);
    const VI bits = hn::BitCast(DI(), value);
    any_bits = hn::Or(any_bits, bits);
    all_bits = hn::And(all_bits, bits);
  }

  // Returns the value, or +0 where it is not finite: adding that to a lane changes nothing, as no lane is ever -0.
  HWY_INLINE V add_any(V value) {
    const D d;
    const auto finite = hn::IsFinite(value);
    count(nan, hn::IsNaN(value));
    count(positive_inf, hn::Eq(value, hn::Set(d, std::numeric_limits<T>::infinity())));
    count(negative_inf, hn::Eq(value, hn::Set(d, -std::numeric_limits<T>::infinity())));
    count(positive, hn::Gt(value, hn::Zero(d)));
    count(negative, hn::Lt(value, hn::Zero(d)));
    max = hn::IfThenElse(finite, hn::Max(max, value), max);
    min = hn::IfThenElse(finite, hn::Min(min, value), min);
    const V bits = hn::IfThenElseZero(finite, value);
    any_bits = hn::Or(any_bits, hn::BitCast(DI(), bits));
    const VI ones = hn::Set(DI(), -1);
    all_bits = hn::And(all_bits, hn::BitCast(DI(), hn::IfThenElse(finite, value, hn::BitCast(d, ones))));
    return bits;
  }

  static HWY_INLINE std::uint64_t total(VI counter) {
    return static_cast<std::uint64_t>(hn::GetLane(hn::SumOfLanes(DI(), counter)));
  }

  HWY_INLINE void store(Moments& moments) const {
    const D d;
    const auto greatest = static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, max)));
    const auto least = static_cast<double>(hn::GetLane(hn::MinOfLanes(d, min)));
    const bool has_minus = !hn::AllFalse(DI(), hn::Lt(any_bits, hn::Zero(DI())));
    const bool has_plus = !hn::AllTrue(DI(), hn::Lt(all_bits, hn::Zero(DI())));
    moments.take_max(greatest != 0 ? greatest : has_plus ? 0.0 : -0.0);
    moments.take_min(least != 0 ? least : has_minus ? -0.0 : 0.0);
    moments.positive += total(positive);
    moments.negative += total(negative);
  }

  // After add_any() only.
  HWY_INLINE void store_not_finite(Moments& moments) const {
    const std::uint64_t before = moments.nan + moments.positive_inf + moments.negative_inf;
    moments.nan += total(nan);
    moments.positive_inf += total(positive_inf);
    moments.negative_inf += total(negative_inf);
    moments.expect_finite = moments.nan + moments.positive_inf + moments.negative_inf == before;
  }
};

enum class Trust { all_finite, none };

// One pass. With Trust::all_finite it stores nothing and returns false if an element was not finite after all.
template <class Load, Trust kTrust>
HWY_INLINE bool pass_float32(Moments& moments, const std::byte* data, std::size_t elements) {
  Lanes lanes(moments);
  Found<D32> found;
  for (std::size_t i = 0; i < elements; i += kLanes) {
    prefetch_ahead<kLanes * Load::kItemBytes>(data + i * Load::kItemBytes);
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors32; ++v) {
      V32 value = Load::load(data + (i + v * kLanes32) * Load::kItemBytes);
      if constexpr (kTrust == Trust::all_finite) {
        found.add_finite(value);
      } else {
        value = found.add_any(value);
      }
      lanes.add_short(2 * v, hn::PromoteTo(D64(), hn::LowerHalf(value)));
      lanes.add_short(2 * v + 1, hn::PromoteTo(D64(), hn::UpperHalf(hn::Half<D32>(), value)));
    }
  }
  if (kTrust == Trust::all_finite && !lanes.squares_are_finite()) return false;
  lanes.store(moments);
  found.store(moments);
  if (kTrust == Trust::none) found.store_not_finite(moments);
  return true;
}

template <class D>
HWY_INLINE hn::Vec<D> load_bytes(D d, const std::byte* data) {
  return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(data));
}

struct LoadFloat32 {
  static constexpr std::size_t kItemBytes = 4;
  static HWY_INLINE V32 load(const std::byte* data) { return load_bytes(D32(), data); }
};

struct Float32Value {
  static double of(std::int32_t code) { return static_cast<double>(std::bit_cast<float>(code)); }
};

// One pass over 32-bit floats in memory, a multiple of kQuickStep. Stores nothing and returns false if an element was
// not finite.
constexpr std::size_t kQuickStep = 4 * kLanes;

HWY_INLINE bool pass_finite_float32(Moments& moments, const std::byte* data, std::size_t elements) {
  constexpr std::size_t kVectors = 4 * kVectors32;
  Lanes lanes(moments);
  SignedCodes<std::int32_t> found;
  const auto* values = reinterpret_cast<const float*>(data);
  const auto* bits = reinterpret_cast<const std::int32_t*>(data);
  for (std::size_t i = 0; i < elements; i += kQuickStep) {
    prefetch_ahead<kQuickStep * sizeof(float)>(data + i * sizeof(float));
#pragma GCC unroll 16
    for (std::size_t v = 0; v < 4 * kVectors64; ++v) {
      // Widened from memory: a vector in a register would have to be cut in halves first.
      lanes.add_short(v % kVectors64, hn::PromoteTo(D64(), hn::LoadU(hn::Half<D32>(), values + i + v * kLanes64)));
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kVectors; v += 4) {
      const auto load = [&](std::size_t k) HWY_ATTR {
        return hn::LoadU(SignedCodes<std::int32_t>::DI(), bits + i + (v + k) * kLanes32);
      };
      found.compare(load(0));
      found.compare(load(1));
      found.compare(load(2));
      found.compare(load(3));
      found.count(saturate(saturate(load(0), load(1)), saturate(load(2), load(3))));
    }
  }
  if (!lanes.squares_are_finite()) return false;
  lanes.store(moments);
  found.store<Float32Value>(moments, data, elements);
  return true;
}

template <class Load>
std::size_t add_float32(Moments& moments, const std::byte* data, std::size_t elements) {
  elements -= elements % kLanes;
  if constexpr (std::is_same_v<Load, LoadFloat32>) {
    const std::size_t quick = elements - elements % kQuickStep;
    if (moments.expect_finite && quick != 0 && pass_finite_float32(moments, data, quick)) return quick;
  }
  if (moments.expect_finite && pass_float32<Load, Trust::all_finite>(moments, data, elements)) {
    return elements;
  }
  moments.expect_finite = false;
  pass_float32<Load, Trust::none>(moments, data, elements);
  return elements;
}

template <class Load, Trust kTrust>
HWY_INLINE bool pass_float64(Moments& moments, const std::byte* data, std::size_t elements) {
  Lanes lanes(moments);
  Found<D64> found;
  for (std::size_t i = 0; i < elements; i += kLanes) {
    prefetch_ahead<kLanes * sizeof(double)>(data + i * sizeof(double));
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors64; ++v) {
      V64 value = Load::load(data + (i + v * kLanes64) * sizeof(double));
      if constexpr (kTrust == Trust::all_finite) {
        found.add_finite(value);
      } else {
        value = found.add_any(value);
      }
      lanes.add(v, value);
    }
  }
  if (kTrust == Trust::all_finite && !lanes.squares_are_finite()) return false;
  lanes.store(moments);
  found.store(moments);
  if (kTrust == Trust::none) found.store_not_finite(moments);
  return true;
}

template <class Load>
std::size_t add_float64(Moments& moments, const std::byte* data, std::size_t elements) {
  elements -= elements % kLanes;
  if (moments.expect_finite && pass_float64<Load, Trust::all_finite>(moments, data, elements)) {
    return elements;
  }
  moments.expect_finite = false;
  pass_float64<Load, Trust::none>(moments, data, elements);
  return elements;
}

struct LoadBFloat16 {
  static constexpr std::size_t kItemBytes = 2;
  static HWY_INLINE V32 load(const std::byte* data) {
    const hn::RebindToUnsigned<D32> wide;
    const auto bits = hn::PromoteTo(wide, load_bytes(hn::Rebind<std::uint16_t, D32>(), data));
    return hn::BitCast(D32(), hn::ShiftLeft<16>(bits));
  }
};

// A format of `kFractionBits`, with a sign at the top of Stored and exponent bits between. The bits are moved to their
// places in a float.
template <typename Stored, int kFractionBits, int kBias>
struct LoadNarrow {
  static constexpr std::size_t kItemBytes = sizeof(Stored);
  static constexpr int kSign = 8 * sizeof(Stored) - 1;
  using DU = hn::RebindToUnsigned<D32>;

  static HWY_INLINE hn::Vec<DU> load_code(const std::byte* data) {
    return hn::PromoteTo(DU(), load_bytes(hn::Rebind<Stored, D32>(), data));
  }
  static HWY_INLINE hn::Vec<DU> magnitude_of(hn::Vec<DU> code) {
    return hn::And(code, hn::Set(DU(), (1U << kSign) - 1));
  }
  static HWY_INLINE V32 with_sign(V32 magnitude, hn::Vec<DU> code) {
    const auto sign = hn::And(hn::ShiftLeft<31 - kSign>(code), hn::Set(DU(), 0x80000000U));
    return hn::Or(magnitude, hn::BitCast(D32(), sign));
  }
  // Never by way of a denormal float: a processor takes a hundred cycles for each.
  static HWY_INLINE V32 widened(hn::Vec<DU> magnitude) {
    constexpr std::uint32_t kOne = 1U << 23;  // of the exponent
    const auto normal = hn::Add(hn::ShiftLeft<23 - kFractionBits>(magnitude),
                                hn::Set(DU(), static_cast<std::uint32_t>(127 - kBias) * kOne));
    const auto small = hn::Lt(magnitude, hn::Set(DU(), 1U << kFractionBits));
    // With the exponent of the least normal number, which has the implied one that a denormal lacks.
    const auto next = hn::BitCast(D32(), hn::Add(normal, hn::Set(DU(), kOne)));
    const V32 least = hn::BitCast(D32(), hn::Set(DU(), static_cast<std::uint32_t>(128 - kBias) * kOne));
    return hn::IfThenElse(hn::RebindMask(D32(), small), hn::Sub(next, least), hn::BitCast(D32(), normal));
  }
};

// Infinity and NaN if the exponent is all ones, as in IEEE formats.
template <typename Stored, int kFractionBits, int kBias>
struct LoadIeee : LoadNarrow<Stored, kFractionBits, kBias> {
  using Base = LoadNarrow<Stored, kFractionBits, kBias>;
  static HWY_INLINE V32 load(const std::byte* data) {
    const typename Base::DU du;
    const auto code = Base::load_code(data);
    const auto magnitude = Base::magnitude_of(code);
    const auto special = hn::Gt(magnitude, hn::Set(du, (1U << Base::kSign) - (1U << kFractionBits) - 1));
    const auto special_bits = hn::Or(hn::ShiftLeft<23 - kFractionBits>(magnitude), hn::Set(du, 0x7F800000U));
    const V32 value =
        hn::IfThenElse(hn::RebindMask(D32(), special), hn::BitCast(D32(), special_bits), Base::widened(magnitude));
    return Base::with_sign(value, code);
  }
};

#if HWY_TARGET <= HWY_AVX2  // these have the instruction
struct LoadFloat16 {
  static constexpr std::size_t kItemBytes = 2;
  static HWY_INLINE V32 load(const std::byte* data) {
    const hn::Rebind<hwy::float16_t, D32> narrow;
    const auto bits = load_bytes(hn::Rebind<std::uint16_t, D32>(), data);
    return hn::PromoteTo(D32(), hn::BitCast(narrow, bits));
  }
};
#else
struct LoadFloat16 : LoadIeee<std::uint16_t, 10, 15> {};
#endif
using LoadFloat8E5M2 = LoadIeee<std::uint8_t, 2, 15>;

// One code, or one code of each sign, is NaN; there is no infinity.
template <int kFractionBits, int kBias, unsigned kNanCode, bool kNanOfBothSigns>
struct LoadFloat8Finite : LoadNarrow<std::uint8_t, kFractionBits, kBias> {
  using Base = LoadNarrow<std::uint8_t, kFractionBits, kBias>;
  static HWY_INLINE V32 load(const std::byte* data) {
    const typename Base::DU du;
    const auto code = Base::load_code(data);
    const auto magnitude = Base::magnitude_of(code);
    const auto nan = hn::Eq(kNanOfBothSigns ? magnitude : code, hn::Set(du, kNanCode));
    const V32 value = Base::with_sign(Base::widened(magnitude), code);
    return hn::IfThenElse(hn::RebindMask(D32(), nan), hn::NaN(D32()), value);
  }
};
using LoadFloat8E4M3FN = LoadFloat8Finite<3, 7, 0x7F, true>;
using LoadFloat8E4M3FNUZ = LoadFloat8Finite<3, 8, 0x80, false>;
using LoadFloat8E5M2FNUZ = LoadFloat8Finite<2, 16, 0x80, false>;

// The code is the exponent of a float; 0 is half of float's least normal number.
struct LoadFloat8E8M0 {
  static constexpr std::size_t kItemBytes = 1;
  static HWY_INLINE V32 load(const std::byte* data) {
    const hn::RebindToUnsigned<D32> du;
    const auto code = hn::PromoteTo(du, load_bytes(hn::Rebind<std::uint8_t, D32>(), data));
    const auto least = hn::IfThenElseZero(hn::Eq(code, hn::Zero(du)), hn::Set(du, 0x00400000U));
    const V32 value = hn::BitCast(D32(), hn::Or(hn::ShiftLeft<23>(code), least));
    const auto nan = hn::Eq(code, hn::Set(du, 0xFFU));
    return hn::IfThenElse(hn::RebindMask(D32(), nan), hn::NaN(D32()), value);
  }
};

struct LoadFloat64 {
  static HWY_INLINE V64 load(const std::byte* data) { return load_bytes(D64(), data); }
};

// 64-bit integers as doubles, rounded once: each half is exact as the fraction of a large power of two, and only the
// last addition rounds.
struct LoadUInt64 {
  static HWY_INLINE V64 from_halves(hn::Vec<hn::RebindToUnsigned<D64>> bits, double offset) {
    const hn::RebindToUnsigned<D64> du;
    const auto high = hn::Or(hn::ShiftRight<32>(bits), hn::Set(du, 0x4530000000000000U));                // 2^84
    const auto low = hn::Or(hn::And(bits, hn::Set(du, 0xFFFFFFFFU)), hn::Set(du, 0x4330000000000000U));  // 2^52
    const V64 high_value = hn::Sub(hn::BitCast(D64(), high), hn::Set(D64(), offset));
    return hn::Add(high_value, hn::BitCast(D64(), low));
  }
  static HWY_INLINE V64 load(const std::byte* data) {
    return from_halves(load_bytes(hn::RebindToUnsigned<D64>(), data), 0x1p84 + 0x1p52);
  }
};

struct LoadInt64 {
  static HWY_INLINE V64 load(const std::byte* data) {
#if HWY_TARGET <= HWY_AVX3  // has the instruction
    return hn::ConvertTo(D64(), load_bytes(hn::RebindToSigned<D64>(), data));
#else
    const hn::RebindToUnsigned<D64> du;
    const auto shifted = hn::Xor(load_bytes(du, data), hn::Set(du, std::uint64_t{1} << 63));
    return LoadUInt64::from_halves(shifted, 0x1p84 + 0x1p63 + 0x1p52);
#endif
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#endif
