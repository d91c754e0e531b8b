// Kernels of pair.h. Compiled once per instruction set by pair_vector.cpp.
#if defined(SONDE_STATS_PAIR_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_STATS_PAIR_VECTOR_INL_H_
#undef SONDE_STATS_PAIR_VECTOR_INL_H_
#else
#define SONDE_STATS_PAIR_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include "ground/stats/pair_kernels.h"

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

// Adds 1 to each lane of the counter where the mask is true.
template <class D>
HWY_INLINE void count_true(hn::Vec<hn::RebindToSigned<D>>& counter, hn::Mask<D> mask) {
  const hn::RebindToSigned<D> d;
#if HWY_TARGET <= HWY_AVX3  // one masked addition
  counter = hn::IfThenElse(hn::RebindMask(d, mask), hn::Add(counter, hn::Set(d, 1)), counter);
#else  // a true lane is -1
  counter = hn::Sub(counter, hn::VecFromMask(d, hn::RebindMask(d, mask)));
#endif
}

template <class D>
HWY_INLINE std::uint64_t total(hn::Vec<hn::RebindToSigned<D>> counter) {
  return static_cast<std::uint64_t>(hn::GetLane(hn::SumOfLanes(hn::RebindToSigned<D>(), counter)));
}

// kFused if products of the values are exact, so that fusing changes nothing.
template <bool kFused>
HWY_INLINE V64 add_product(V64 a, V64 b, V64 sum) {
  if constexpr (kFused) return hn::MulAdd(a, b, sum);
  return hn::Add(sum, hn::Mul(a, b));
}

// The work on one vector of lanes: its sums stay in registers for the whole block.
template <bool kFused>
struct LaneSums {
  V64 sum, golden_sum, squares, golden_squares, products, errors, error_squares, relative;

  HWY_INLINE LaneSums() {}  // the compiler's own would be compiled for the baseline instruction set
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

// The smallest and largest elements and the number of different pairs, on whole vectors of the type that is read.
template <class D>
struct Range {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  V min, max, golden_min, golden_max;
  hn::Vec<DI> mismatches;

  HWY_INLINE Range() {
    const D d;
    using T = hn::TFromD<D>;
    min = golden_min = hn::Set(d, std::numeric_limits<T>::infinity());
    max = golden_max = hn::Set(d, -std::numeric_limits<T>::infinity());
    mismatches = hn::Zero(DI());
  }
  HWY_INLINE void add(V x, V y) {
    min = hn::Min(min, x);
    max = hn::Max(max, x);
    golden_min = hn::Min(golden_min, y);
    golden_max = hn::Max(golden_max, y);
    count_true<D>(mismatches, hn::Ne(x, y));
  }
  HWY_INLINE void add_identical(V x) {
    min = hn::Min(min, x);
    max = hn::Max(max, x);
  }
  HWY_INLINE void store(PairBlock& block) const {
    const D d;
    block.min = static_cast<double>(hn::GetLane(hn::MinOfLanes(d, min)));
    block.max = static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, max)));
    block.golden_min = static_cast<double>(hn::GetLane(hn::MinOfLanes(d, golden_min)));
    block.golden_max = static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, golden_max)));
    block.mismatches = total<D>(mismatches);
  }
};

// The largest errors, and the number of small ones.
struct Errors {
  V64 error, relative, nonzero;
  VI64 thousandth, five;

  HWY_INLINE Errors() {
    error = relative = nonzero = hn::Zero(D64());
    thousandth = five = hn::Zero(DI64());
  }
  HWY_INLINE void store(PairBlock& block) const {
    const D64 d;
    block.max_error = hn::GetLane(hn::MaxOfLanes(d, error));
    block.max_relative = hn::GetLane(hn::MaxOfLanes(d, relative));
    block.max_nonzero_relative = hn::GetLane(hn::MaxOfLanes(d, nonzero));
    block.below_thousandth = total<D64>(thousandth);
    block.below_five_thousandths = total<D64>(five);
  }
};

template <bool kFused>
HWY_INLINE void add_relative(LaneSums<kFused>& sums, Errors& found, V64 x, V64 y, V64 error) {
  const D64 d;
  const V64 epsilon = hn::Set(d, kRelativeEpsilon);
  const V64 size = hn::Abs(y);
  const auto is_zero = hn::Eq(y, hn::Zero(d));
  const V64 above = hn::IfThenElse(is_zero, hn::Abs(hn::Sub(hn::Add(x, epsilon), epsilon)), error);
  const V64 relative = hn::Div(above, hn::IfThenElse(is_zero, epsilon, size));
  const V64 nonzero = hn::IfThenElseZero(hn::Gt(size, epsilon), relative);
  sums.errors = hn::Add(sums.errors, error);
  sums.relative = hn::Add(sums.relative, nonzero);
  found.relative = hn::Max(found.relative, relative);
  found.nonzero = hn::Max(found.nonzero, nonzero);
  count_true<D64>(found.thousandth, hn::Lt(relative, hn::Set(d, 0.001)));
  count_true<D64>(found.five, hn::Lt(relative, hn::Set(d, 0.005)));
}

template <bool kFused, PairWork kWork>
HWY_INLINE void add_vector(LaneSums<kFused>& sums, Errors& found, V64 x, V64 y) {
  sums.sum = hn::Add(sums.sum, x);
  sums.golden_sum = hn::Add(sums.golden_sum, y);
  sums.squares = add_product<kFused>(x, x, sums.squares);
  sums.golden_squares = add_product<kFused>(y, y, sums.golden_squares);
  sums.products = add_product<kFused>(x, y, sums.products);
  if constexpr (kWork != PairWork::identical) {
    const V64 difference = hn::Sub(x, y);
    const V64 error = hn::Abs(difference);
    sums.error_squares = hn::Add(sums.error_squares, hn::Mul(difference, difference));
    found.error = hn::Max(found.error, error);
    if constexpr (kWork == PairWork::all) add_relative(sums, found, x, y, error);
  }
}

// One set of lanes of double, and one of float, whose products are exact in double.
struct Values64 {
  using T = double;
  using D = D64;
  static constexpr bool kFused = false;
  static constexpr std::size_t kHalves = 1;  // vectors of double that one vector of T makes
  static HWY_INLINE V64 half(V64 values, std::size_t) { return values; }
};
struct Values32 {
  using T = float;
  using D = D32;
  static constexpr bool kFused = true;
  static constexpr std::size_t kHalves = 2;
  static HWY_INLINE V64 half(V32 values, std::size_t which) {
    return which == 0 ? hn::PromoteTo(D64(), hn::LowerHalf(values))
                      : hn::PromoteTo(D64(), hn::UpperHalf(hn::Half<D32>(), values));
  }
};

// One pass over the block; the sums of all lanes stay in registers.
template <class Values, PairWork kWork>
HWY_INLINE bool add_block(double (*lanes)[kLanes], PairBlock& block, const typename Values::T* x,
                          const typename Values::T* y, std::size_t pairs) {
  const typename Values::D d;
  constexpr std::size_t kWidth = hn::MaxLanes(typename Values::D());
  LaneSums<Values::kFused> sums[kVectors64];
  Range<typename Values::D> range;
  Errors errors;
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors64; ++v) sums[v].load(lanes, v * kLanes64);
  for (std::size_t i = 0; i < pairs; i += kLanes) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors64; v += Values::kHalves) {
      const auto left = hn::LoadU(d, x + i + v / Values::kHalves * kWidth);
      if constexpr (kWork == PairWork::identical) {
        range.add_identical(left);
#pragma GCC unroll 2
        for (std::size_t h = 0; h < Values::kHalves; ++h) {
          const V64 value = Values::half(left, h);
          add_vector<Values::kFused, kWork>(sums[v + h], errors, value, value);
        }
      } else {
        const auto right = hn::LoadU(d, y + i + v / Values::kHalves * kWidth);
        range.add(left, right);
#pragma GCC unroll 2
        for (std::size_t h = 0; h < Values::kHalves; ++h) {
          add_vector<Values::kFused, kWork>(sums[v + h], errors, Values::half(left, h), Values::half(right, h));
        }
      }
    }
  }
  bool finite = true;
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors64; ++v) finite = finite && sums[v].finite();
  if (!finite) return false;
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors64; ++v) sums[v].store(lanes, v * kLanes64);
  range.store(block);
  errors.store(block);
  if constexpr (kWork == PairWork::identical) {
    block.golden_min = block.min;
    block.golden_max = block.max;
    block.below_thousandth = block.below_five_thousandths = pairs;
  }
  return true;
}

template <class Values>
bool add_pairs(double (*lanes)[kLanes], PairBlock& block, const typename Values::T* x, const typename Values::T* y,
               std::size_t pairs, PairWork work) {
  switch (work) {
    case PairWork::all:
      return add_block<Values, PairWork::all>(lanes, block, x, y, pairs);
    case PairWork::essential:
      return add_block<Values, PairWork::essential>(lanes, block, x, y, pairs);
    default:
      return add_block<Values, PairWork::identical>(lanes, block, x, y, pairs);
  }
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

// The bits are moved to their places in a float. This gives the value times 2^-112, denormals included; one exact
// product corrects it. Infinity and NaN become 2^16 and more, and then get their exponent.
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
