// Kernels of pair.h. Compiled once per instruction set by pair_vector.cpp.
#if defined(SONDE_STATS_PAIR_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_STATS_PAIR_VECTOR_INL_H_
#undef SONDE_STATS_PAIR_VECTOR_INL_H_
#else
#define SONDE_STATS_PAIR_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include "stats/pair_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::ScalableTag<double>;
using V64 = hn::Vec<D64>;
using D32 = hn::Repartition<float, D64>;
using V32 = hn::Vec<D32>;
using DI64 = hn::RebindToSigned<D64>;
using VI64 = hn::Vec<DI64>;
constexpr std::size_t kLanes64 = hn::MaxLanes(D64());
constexpr std::size_t kVectors64 = kLanes / kLanes64;

HWY_INLINE void count_true64(VI64& counter, hn::Mask<D64> mask) {
#if HWY_TARGET <= HWY_AVX3
  const auto counted = hn::RebindMask(DI64(), mask);
  counter = hn::IfThenElse(counted, hn::Add(counter, hn::Set(DI64(), 1)), counter);
#else
  counter = hn::Sub(counter, hn::VecFromMask(DI64(), hn::RebindMask(DI64(), mask)));
#endif
}

HWY_INLINE std::uint64_t total64(VI64 counter) {
  return static_cast<std::uint64_t>(hn::GetLane(hn::SumOfLanes(DI64(), counter)));
}

// Two vectors of doubles of one kernel's pairs: kFused where products of the values are exact.
template <bool kFused>
HWY_INLINE V64 add_product(V64 a, V64 b, V64 sum) {
  if constexpr (kFused) return hn::MulAdd(a, b, sum);
  return hn::Add(sum, hn::Mul(a, b));
}

// The part of the work on one vector's worth of lanes: its sums stay in registers for the whole block.
template <bool kFused>
struct LaneSums {
  V64 sum, golden_sum, squares, golden_squares, products, errors, error_squares, relative;

  HWY_INLINE void load(const double (*lanes)[kLanes], std::size_t at) {
    const D64 d;
    sum = hn::Load(d, lanes[kSum] + at);
    golden_sum = hn::Load(d, lanes[kGoldenSum] + at);
    squares = hn::Load(d, lanes[kSquares] + at);
    golden_squares = hn::Load(d, lanes[kGoldenSquares] + at);
    products = hn::Load(d, lanes[kProducts] + at);
    errors = hn::Load(d, lanes[kErrors] + at);
    error_squares = hn::Load(d, lanes[kErrorSquares] + at);
    relative = hn::Load(d, lanes[kRelative] + at);
  }
  HWY_INLINE bool finite() const {
    const auto all = hn::And(hn::And(hn::IsFinite(squares), hn::IsFinite(golden_squares)),
                             hn::And(hn::IsFinite(error_squares), hn::IsFinite(relative)));
    return hn::AllTrue(D64(), hn::And(all, hn::IsFinite(products)));
  }
  HWY_INLINE void store(double (*lanes)[kLanes], std::size_t at) const {
    const D64 d;
    hn::Store(sum, d, lanes[kSum] + at);
    hn::Store(golden_sum, d, lanes[kGoldenSum] + at);
    hn::Store(squares, d, lanes[kSquares] + at);
    hn::Store(golden_squares, d, lanes[kGoldenSquares] + at);
    hn::Store(products, d, lanes[kProducts] + at);
    hn::Store(errors, d, lanes[kErrors] + at);
    hn::Store(error_squares, d, lanes[kErrorSquares] + at);
    hn::Store(relative, d, lanes[kRelative] + at);
  }
};

struct Extremes {
  V64 error, relative, nonzero;
  V64 min, max, golden_min, golden_max;
  VI64 mismatches, thousandth, five;

  HWY_INLINE Extremes() {
    const D64 d;
    error = relative = nonzero = hn::Zero(d);
    min = golden_min = hn::Set(d, std::numeric_limits<double>::infinity());
    max = golden_max = hn::Set(d, -std::numeric_limits<double>::infinity());
    mismatches = thousandth = five = hn::Zero(DI64());
  }
  HWY_INLINE void store(PairBlock& block) const {
    const D64 d;
    block.max_error = hn::GetLane(hn::MaxOfLanes(d, error));
    block.max_relative = hn::GetLane(hn::MaxOfLanes(d, relative));
    block.max_nonzero_relative = hn::GetLane(hn::MaxOfLanes(d, nonzero));
    block.min = hn::GetLane(hn::MinOfLanes(d, min));
    block.max = hn::GetLane(hn::MaxOfLanes(d, max));
    block.golden_min = hn::GetLane(hn::MinOfLanes(d, golden_min));
    block.golden_max = hn::GetLane(hn::MaxOfLanes(d, golden_max));
    block.mismatches = total64(mismatches);
    block.below_thousandth = total64(thousandth);
    block.below_five_thousandths = total64(five);
  }
};

template <bool kFused>
HWY_INLINE void add_vector(LaneSums<kFused>& sums, Extremes& found, V64 x, V64 y) {
  const D64 d;
  const V64 zero = hn::Zero(d), epsilon = hn::Set(d, kRelativeEpsilon);
  sums.sum = hn::Add(sums.sum, x);
  sums.golden_sum = hn::Add(sums.golden_sum, y);
  sums.squares = add_product<kFused>(x, x, sums.squares);
  sums.golden_squares = add_product<kFused>(y, y, sums.golden_squares);
  sums.products = add_product<kFused>(x, y, sums.products);
  const V64 difference = hn::Sub(x, y);
  const V64 error = hn::Abs(difference);
  sums.errors = hn::Add(sums.errors, error);
  sums.error_squares = hn::Add(sums.error_squares, hn::Mul(difference, difference));
  const V64 size = hn::Abs(y);
  const auto is_zero = hn::Eq(y, zero);
  const V64 above = hn::IfThenElse(is_zero, hn::Abs(hn::Sub(hn::Add(x, epsilon), epsilon)), error);
  const V64 relative = hn::Div(above, hn::IfThenElse(is_zero, epsilon, size));
  const V64 nonzero = hn::IfThenElseZero(hn::Gt(size, epsilon), relative);
  sums.relative = hn::Add(sums.relative, nonzero);
  found.error = hn::Max(found.error, error);
  found.relative = hn::Max(found.relative, relative);
  found.nonzero = hn::Max(found.nonzero, nonzero);
  found.min = hn::Min(found.min, x);
  found.max = hn::Max(found.max, x);
  found.golden_min = hn::Min(found.golden_min, y);
  found.golden_max = hn::Max(found.golden_max, y);
  count_true64(found.mismatches, hn::Ne(x, y));
  count_true64(found.thousandth, hn::Lt(relative, hn::Set(d, 0.001)));
  count_true64(found.five, hn::Lt(relative, hn::Set(d, 0.005)));
}

// The same where y is x.
template <bool kFused>
HWY_INLINE void add_identical(LaneSums<kFused>& sums, Extremes& found, V64 x) {
  sums.sum = hn::Add(sums.sum, x);
  sums.golden_sum = hn::Add(sums.golden_sum, x);
  if constexpr (kFused) {
    sums.squares = hn::MulAdd(x, x, sums.squares);
    sums.golden_squares = hn::MulAdd(x, x, sums.golden_squares);
    sums.products = hn::MulAdd(x, x, sums.products);
  } else {
    const V64 square = hn::Mul(x, x);
    sums.squares = hn::Add(sums.squares, square);
    sums.golden_squares = hn::Add(sums.golden_squares, square);
    sums.products = hn::Add(sums.products, square);
  }
  found.min = hn::Min(found.min, x);
  found.max = hn::Max(found.max, x);
}

struct Values64 {
  using T = double;
  static constexpr bool kFused = false;
  static HWY_INLINE V64 load(const double* from) { return hn::LoadU(D64(), from); }
};
struct Values32 {  // 24 significant bits: products are exact in double
  using T = float;
  static constexpr bool kFused = true;
  static HWY_INLINE V64 load(const float* from) {
    return hn::PromoteTo(D64(), hn::LoadU(hn::Rebind<float, D64>(), from));
  }
};

// One pass over the block; each vector of lanes has its own, so that its sums stay in registers.
template <class Values, bool kIdentical>
HWY_INLINE bool add_block(double (*lanes)[kLanes], PairBlock& block, const typename Values::T* x,
                          const typename Values::T* y, std::size_t pairs) {
  LaneSums<Values::kFused> sums[kVectors64];
  Extremes found;
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors64; ++v) sums[v].load(lanes, v * kLanes64);
  for (std::size_t i = 0; i < pairs; i += kLanes) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors64; ++v) {
      const V64 left = Values::load(x + i + v * kLanes64);
      if constexpr (kIdentical) {
        add_identical<Values::kFused>(sums[v], found, left);
      } else {
        add_vector<Values::kFused>(sums[v], found, left, Values::load(y + i + v * kLanes64));
      }
    }
  }
  bool finite = true;
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors64; ++v) finite = finite && sums[v].finite();
  if (!finite) return false;
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors64; ++v) sums[v].store(lanes, v * kLanes64);
  found.store(block);
  if constexpr (kIdentical) {
    block.golden_min = block.min;
    block.golden_max = block.max;
    block.below_thousandth = block.below_five_thousandths = pairs;
  }
  return true;
}

template <class Values>
bool add_pairs(double (*lanes)[kLanes], PairBlock& block, const typename Values::T* x, const typename Values::T* y,
               std::size_t pairs, bool identical) {
  return identical ? add_block<Values, true>(lanes, block, x, y, pairs)
                   : add_block<Values, false>(lanes, block, x, y, pairs);
}

void widen_bfloat16(const std::uint16_t* from, float* to, std::size_t count) {
  const D32 d;
  const hn::RebindToUnsigned<D32> wide;
  constexpr std::size_t kStep = hn::MaxLanes(D32());
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const auto bits = hn::PromoteTo(wide, hn::LoadU(hn::Rebind<std::uint16_t, D32>(), from + i));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, to + i);
  }
  scalar_pair_kernel().from_bfloat16(from + i, to + i, count - i);
}

// The bits go where float has them, which is the value times 2^-112, denormals included; one exact product mends that.
// Infinity and NaN become 2^16 and more, and get their exponent.
void widen_float16(const std::uint16_t* from, float* to, std::size_t count) {
  const D32 d;
  const hn::RebindToUnsigned<D32> wide;
  constexpr std::size_t kStep = hn::MaxLanes(D32());
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const auto bits = hn::PromoteTo(wide, hn::LoadU(hn::Rebind<std::uint16_t, D32>(), from + i));
    const auto size = hn::ShiftLeft<13>(hn::And(bits, hn::Set(wide, 0x7FFF)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(wide, 0x8000)));
    const auto scaled = hn::BitCast(wide, hn::Mul(hn::BitCast(d, size), hn::Set(d, 0x1p112F)));
    const auto exponent = hn::And(bits, hn::Set(wide, 0x7C00));
    const auto special = hn::VecFromMask(wide, hn::Eq(exponent, hn::Set(wide, 0x7C00)));
    const auto value = hn::Or(scaled, hn::And(special, hn::Set(wide, 0x7F800000)));
    hn::StoreU(hn::BitCast(d, hn::Or(value, sign)), d, to + i);
  }
  scalar_pair_kernel().from_float16(from + i, to + i, count - i);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();
#endif  // SONDE_STATS_PAIR_VECTOR_INL_H_
