// Kernels of floats of 8 and 16 bits, which are added as floats in groups (moments.h). Compiled once per instruction set
// by vector.cpp.
#if defined(SONDE_STATS_VECTOR_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SONDE_STATS_VECTOR_NARROW_INL_H_
#undef SONDE_STATS_VECTOR_NARROW_INL_H_
#else
#define SONDE_STATS_VECTOR_NARROW_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "ground/stats/moments.h"
#include "ground/stats/vector_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The two halves of a row of 32 elements: kLanes32 lanes of each, from lane `first` on.
template <class Load>
struct RowOf {
  static constexpr std::size_t kItemBytes = Load::kItemBytes;
  static HWY_INLINE void load(const std::byte* row, std::size_t first, V32& a, V32& b) {
    a = Load::load(row + first * kItemBytes);
    b = Load::load(row + (kLanes + first) * kItemBytes);
  }
};

// Neighbours are the halves of one 32-bit word.
template <>
struct RowOf<LoadBFloat16> {
  static constexpr std::size_t kItemBytes = 2;
  static HWY_INLINE void load(const std::byte* row, std::size_t first, V32& a, V32& b) {
    const hn::RebindToUnsigned<D32> du;
    const auto words = load_bytes(du, row + first * 4);
    a = hn::BitCast(D32(), hn::ShiftLeft<16>(words));
    b = hn::BitCast(D32(), hn::And(words, hn::Set(du, 0xFFFF0000U)));
  }
};

// The float accumulators of a group.
struct Group {
  V32 sum[2][kVectors32], squares[2][kVectors32];

  HWY_INLINE Group() {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors32; ++v) {
      sum[0][v] = sum[1][v] = squares[0][v] = squares[1][v] = hn::Zero(D32());
    }
  }

  // Squares of such elements are exact: fusing changes nothing.
  HWY_INLINE void add(std::size_t v, V32 a, V32 b) {
    sum[0][v] = hn::Add(sum[0][v], a);
    sum[1][v] = hn::Add(sum[1][v], b);
    squares[0][v] = hn::MulAdd(a, a, squares[0][v]);
    squares[1][v] = hn::MulAdd(b, b, squares[1][v]);
  }

  HWY_INLINE void finish(V32 (&lane_sum)[kVectors32], V32 (&lane_squares)[kVectors32]) const {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors32; ++v) {
      lane_sum[v] = hn::Add(sum[0][v], sum[1][v]);
      lane_squares[v] = hn::Add(squares[0][v], squares[1][v]);
    }
  }

  static HWY_INLINE hn::Mask<D32> has_room(V32 squares) {
    return hn::And(hn::Ge(squares, hn::Set(D32(), kLeastGroupSquares)),
                   hn::Le(squares, hn::Set(D32(), kMostGroupSquares)));
  }
};

HWY_INLINE V64 promote_lower(V32 value) { return hn::PromoteTo(D64(), hn::LowerHalf(value)); }
HWY_INLINE V64 promote_upper(V32 value) { return hn::PromoteTo(D64(), hn::UpperHalf(hn::Half<D32>(), value)); }

// Adds the floats of a group to the lanes.
HWY_INLINE void add_floats(Lanes& lanes, const V32 (&sum)[kVectors32], const V32 (&squares)[kVectors32]) {
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors32; ++v) {
    lanes.sum[2 * v] = hn::Add(lanes.sum[2 * v], promote_lower(sum[v]));
    lanes.sum[2 * v + 1] = hn::Add(lanes.sum[2 * v + 1], promote_upper(sum[v]));
    lanes.squares[2 * v] = hn::Add(lanes.squares[2 * v], promote_lower(squares[v]));
    lanes.squares[2 * v + 1] = hn::Add(lanes.squares[2 * v + 1], promote_upper(squares[v]));
  }
}

// Adds a group of any other type than bfloat16, whose squares always have room.
HWY_INLINE void add_roomy_group(Lanes& lanes, const Group& group) {
  V32 sum[kVectors32], squares[kVectors32];
  group.finish(sum, squares);
  add_floats(lanes, sum, squares);
}

// False, and nothing is added, if some lane must be added as doubles.
HWY_INLINE bool add_group(Lanes& lanes, const Group& group) {
  V32 sum[kVectors32], squares[kVectors32];
  group.finish(sum, squares);
  auto all = Group::has_room(squares[0]);
#pragma GCC unroll 8
  for (std::size_t v = 1; v < kVectors32; ++v) all = hn::And(all, Group::has_room(squares[v]));
  if (!hn::AllTrue(D32(), all)) return false;
  add_floats(lanes, sum, squares);
  return true;
}

// Of bfloat16. Such groups are frequent, and their squares have no room.
HWY_INLINE bool is_group_of_zeros(const std::byte* data) {
  const hn::RebindToUnsigned<D32> du;
  auto bits = hn::Zero(du);
  for (std::size_t at = 0; at < 2 * kGroupElements; at += 4 * kLanes32) bits = hn::Or(bits, load_bytes(du, data + at));
  return hn::AllTrue(du, hn::Eq(hn::And(bits, hn::Set(du, 0x7FFF7FFFU)), hn::Zero(du)));
}

// A group as floats and as doubles; each lane takes the floats if its squares have room there. Elements that are not
// finite are left out. `found` gets counts and extremes; null: only the sums.
template <class Load>
HWY_NOINLINE void add_group_with_care(Lanes& lanes, Found<D32>* found, const std::byte* data) {
  Group group;
  V64 sum[kVectors64], squares[kVectors64];
  for (std::size_t v = 0; v < kVectors64; ++v) sum[v] = squares[v] = hn::Zero(D64());
  const auto add = [&](std::size_t v, V32 value) HWY_ATTR {
    const V64 lower = promote_lower(value);
    const V64 upper = promote_upper(value);
    sum[2 * v] = hn::Add(sum[2 * v], lower);
    sum[2 * v + 1] = hn::Add(sum[2 * v + 1], upper);
    squares[2 * v] = hn::MulAdd(lower, lower, squares[2 * v]);
    squares[2 * v + 1] = hn::MulAdd(upper, upper, squares[2 * v + 1]);
  };
  for (std::size_t i = 0; i < kGroupElements; i += 2 * kLanes) {
    for (std::size_t v = 0; v < kVectors32; ++v) {
      V32 a, b;
      RowOf<Load>::load(data + i * Load::kItemBytes, v * kLanes32, a, b);
      if (found != nullptr) {
        a = found->add_any(a);
        b = found->add_any(b);
      }
      group.add(v, a, b);
      add(v, a);
      add(v, b);
    }
  }
  for (std::size_t v = 0; v < kVectors32; ++v) {
    const V32 float_squares = hn::Add(group.squares[0][v], group.squares[1][v]);
    const auto room = Group::has_room(float_squares);
    const V32 float_sum = hn::Add(group.sum[0][v], group.sum[1][v]);
    // As 0 and 1, since a mask of floats has no halves.
    const V32 choice = hn::IfThenElseZero(room, hn::Set(D32(), 1.0F));
    const auto take = [&](std::size_t half, V64 chosen, V64 of_sum, V64 of_squares) HWY_ATTR {
      const auto floats = hn::Ne(chosen, hn::Zero(D64()));
      const std::size_t at = 2 * v + half;
      lanes.sum[at] = hn::Add(lanes.sum[at], hn::IfThenElse(floats, of_sum, sum[at]));
      lanes.squares[at] = hn::Add(lanes.squares[at], hn::IfThenElse(floats, of_squares, squares[at]));
    };
    take(0, promote_lower(choice), promote_lower(float_sum), promote_lower(float_squares));
    take(1, promote_upper(choice), promote_upper(float_sum), promote_upper(float_squares));
  }
}

// The codes of one group.
template <typename Code>
HWY_INLINE void add_codes(SignedCodes<Code>& found, const std::byte* data) {
  constexpr std::size_t kCodes = hn::MaxLanes(hn::Repartition<Code, D64>());
  const auto load = [&](std::size_t i) HWY_ATTR {
    return hn::LoadU(typename SignedCodes<Code>::DI(), reinterpret_cast<const Code*>(data + i * sizeof(Code)));
  };
  constexpr std::size_t kBytes = hn::MaxLanes(D8());
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kGroupElements; i += kBytes) {
    if constexpr (sizeof(Code) == 1) {
      found.compare(load(i));
      found.count(load(i));
    } else {
      found.compare(load(i));
      found.compare(load(i + kCodes));
      found.count(saturate(load(i), load(i + kCodes)));
    }
  }
}

// The rows of one group.
template <class Rows>
HWY_INLINE void add_rows(Group& group, const std::byte* data) {
#pragma GCC unroll 8
  for (std::size_t row = 0; row < kGroupElements; row += 2 * kLanes) {
    prefetch_ahead<2 * kLanes * Rows::kItemBytes>(data + row * Rows::kItemBytes);
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors32; ++v) {
      V32 a, b;
      Rows::load(data + row * Rows::kItemBytes, v * kLanes32, a, b);
      group.add(v, a, b);
    }
  }
}

// One pass over whole groups. Stores nothing and returns false if an element was not finite.
template <class Load, typename Code, class Value>
HWY_INLINE bool pass_narrow(Moments& moments, const std::byte* data, std::size_t elements) {
  Lanes lanes(moments);
  SignedCodes<Code> found;
  for (std::size_t i = 0; i < elements; i += kGroupElements) {
    const std::byte* from = data + i * sizeof(Code);
    Group group;
    add_rows<RowOf<Load>>(group, from);
    add_codes<Code>(found, from);
    if constexpr (std::is_same_v<Load, LoadBFloat16>) {
      if (!add_group(lanes, group) && !is_group_of_zeros(from)) add_group_with_care<Load>(lanes, nullptr, from);
    } else {
      add_roomy_group(lanes, group);
    }
  }
  if (!lanes.squares_are_finite()) return false;
  lanes.store(moments);
  found.template store<Value>(moments, data, elements);
  return true;
}

template <class Load>
HWY_NOINLINE void pass_narrow_with_care(Moments& moments, const std::byte* data, std::size_t elements) {
  Lanes lanes(moments);
  Found<D32> found;
  for (std::size_t i = 0; i < elements; i += kGroupElements) {
    add_group_with_care<Load>(lanes, &found, data + i * Load::kItemBytes);
  }
  lanes.store(moments);
  found.store(moments);
  found.store_not_finite(moments);
}

// The number of a code, with the table or function that the scalar kernel uses.
template <double (*kWiden)(std::uint32_t code)>
struct ValueOf {
  template <typename Code>
  static double of(Code code) {
    return kWiden(static_cast<std::make_unsigned_t<Code>>(code));
  }
};

template <class Load, typename Code, double (*kWiden)(std::uint32_t code)>
std::size_t add_narrow(Moments& moments, const std::byte* data, std::size_t elements) {
  elements -= elements % kGroupElements;
  if (elements == 0) return 0;
  if (moments.expect_finite && pass_narrow<Load, Code, ValueOf<kWiden>>(moments, data, elements)) return elements;
  moments.expect_finite = false;
  pass_narrow_with_care<Load>(moments, data, elements);
  return elements;
}

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#endif
