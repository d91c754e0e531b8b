// The kernels that add pairs to PairLanes: one per instruction set, and "scalar", which runs everywhere and defines the
// answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ground/stats/moments.h"
#include "ground/stats/pair.h"

namespace sonde {

// The largest number of pairs that a kernel gets at once: those of two float32 tensors fit in the nearest cache.
inline constexpr std::size_t kPairBlock = 2048;

// The sums of PairSums that are computed in lanes.
enum PairLane : std::size_t {
  kSum,
  kGoldenSum,
  kSquares,
  kGoldenSquares,
  kProducts,
  kErrors,
  kErrorSquares,
  kRelative,
  kPairLaneSums
};

// The running state of one chunk. Pair i of the chunk belongs to lane i % kLanes.
struct PairLanes {
  alignas(64) double lanes[kPairLaneSums][kLanes] = {};
  std::uint64_t done = 0;  // pairs so far
  PairSums found;          // everything that the lanes do not hold; places count from the chunk's start
  bool all_sums = true;    // PairOptions
  bool any_finite = false;
  // A hint: false while elements occur that are not finite, to avoid useless quick passes.
  bool expect_finite = true;
};

enum class PairWork : std::uint8_t {
  all,
  essential,  // without PairOptions::all_sums
  identical,  // the bytes of both are the same
};

// A vector kernel's results for a block of finite pairs, besides the sums.
struct PairBlock {
  double max_error = 0, max_relative = 0, max_nonzero_relative = 0;
  double min, max, golden_min, golden_max;
  std::uint64_t mismatches = 0, below_thousandth = 0, below_five_thousandths = 0;
};

struct PairKernel {
  std::string_view name;  // as in SONDE_KERNEL=avx2
  // Adds `pairs`, a multiple of kLanes and at most kPairBlock, to the lanes, from lane 0 on. Returns false, and adds
  // nothing, if an element or a sum is not finite. Null: this kernel does not have it.
  bool (*add32)(double (*lanes)[kLanes], PairBlock& block, const float* x, const float* y, std::size_t pairs,
                PairWork work);
  bool (*add64)(double (*lanes)[kLanes], PairBlock& block, const double* x, const double* y, std::size_t pairs,
                PairWork work);
  // These widen to float32.
  void (*from_float16)(const std::uint16_t* from, float* to, std::size_t count);
  void (*from_bfloat16)(const std::uint16_t* from, float* to, std::size_t count);
};

const PairKernel& scalar_pair_kernel();
// The kernels that this CPU can run, fastest first; the last is the scalar one.
std::span<const PairKernel> pair_kernels();
const PairKernel& chosen_pair_kernel();

PairSums compare_pair_with(const PairKernel& kernel, const TensorView& target, const TensorView& golden,
                           const PairOptions& options = {}, const ForEach& for_each = in_order);

}  // namespace sonde
