// The running state of one tensor's statistics, and the order of additions that gives every kernel the same result.
//
// Element i (in the order of the walk) belongs to block i / kBlock and to lane i % kLanes. A lane adds its elements in
// order; at the end of a block the lanes are added as a fixed binary tree, and the result is added to the running
// total. Values are widened to double first, and a product is rounded before it is added. A kernel may compute the same
// bits in another way: with a fused multiply-add if products are exact, with integers if sums are.
//
// Floats of 8 and 16 bits (but not e8m0) have so few digits that float32 holds the sum of some of them. Each 256 elements
// of a block are a group of eight rows of 32. A lane has two elements of each row: elements 2k and 2k + 1 of bfloat16,
// k and k + 16 of the others. It adds the first ones of all rows in a float, and the second ones in another, then both;
// and their squares in the same way. The results are added to the lane. If the squares come to less than 2^-80 or more
// than 2^120, bits were lost or an infinity may have come up: that lane then adds the elements of the group as doubles,
// one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "ground/stats/statistics.h"

namespace sonde {

inline constexpr std::size_t kLanes = 16;    // a multiple of every vector's length in doubles
inline constexpr std::size_t kBlock = 8192;  // elements: small integers' sums of squares stay exact in a block

// A kernel fetches the bytes so far ahead. Chosen by measurement: with less it waits for memory, with more it gains nothing.
inline constexpr std::size_t kPrefetchAhead = 8192;

inline constexpr std::size_t kGroupElements = 256;
inline constexpr float kLeastGroupSquares = 0x1p-80F;
inline constexpr float kMostGroupSquares = 0x1p120F;

// The sums of an incomplete group.
struct GroupSums {
  float sum[2][kLanes] = {};
  float squares[2][kLanes] = {};
  double exact_sum[kLanes] = {};
  double exact_squares[kLanes] = {};
};

struct Moments {
  alignas(64) double sum_lanes[kLanes] = {};  // of the current block, finite elements
  alignas(64) double square_lanes[kLanes] = {};
  double sum = 0;  // of the finished blocks
  double squares = 0;
  double max = -std::numeric_limits<double>::infinity();  // over finite elements; -0 counts as less than +0
  double min = std::numeric_limits<double>::infinity();
  std::uint64_t count = 0;
  std::uint64_t nan = 0;
  std::uint64_t positive_inf = 0;
  std::uint64_t negative_inf = 0;
  std::uint64_t positive = 0;  // infinities included
  std::uint64_t negative = 0;
  // A hint: false while elements occur that are not finite, to avoid useless quick passes.
  bool expect_finite = true;
  bool has_group = false;  // some elements are in `group`
  GroupSums group;         // meaningless without

  void take_max(double value);
  void take_min(double value);
};

// The sums of one block. Not initialised: hundreds of them lie on the stack.
struct BlockSums {
  double sum;
  double squares;
};

// Empties the lanes of the current block into its sums.
BlockSums take_block(Moments& moments);
// Adds the sums of the next block to the totals.
inline void add_sums(Moments& moments, const BlockSums& block) {
  moments.sum += block.sum;
  moments.squares += block.squares;
}
// Both at once.
inline void finish_block(Moments& moments) { add_sums(moments, take_block(moments)); }

// Adds the counts and extremes of `part`, which do not depend on an order, to those of `total`.
void add_counts(Moments& total, const Moments& part);

// The result after the last element. Consumes the moments.
Statistics finish(Moments& moments);

inline void Moments::take_max(double value) {
  if (value > max || (value == max && value == 0 && !__builtin_signbit(value))) max = value;
}

inline void Moments::take_min(double value) {
  if (value < min || (value == min && value == 0 && __builtin_signbit(value))) min = value;
}

}  // namespace sonde
