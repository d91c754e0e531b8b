// Cuts two tensors into chunks and blocks, passes these to a kernel, and adds up the results, always in the same order.
#include "ground/stats/pair.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "ground/stats/float_environment.h"
#include "ground/stats/pair_kernels.h"
#include "ground/stats/pair_scalar.h"
#include "ground/stats/pair_values.h"

namespace sonde {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// How to read two views: decided once, the same for all chunks.
struct PairPlan {
  const PairKernel& kernel;
  const TensorView& target;
  const TensorView& golden;
  bool complex = false;  // two values an element
  bool all_sums = true;
  bool as_float = true;  // values are read as float, otherwise as double
  std::uint64_t values = 0;

  PairPlan(const PairKernel& with, const TensorView& left, const TensorView& right, const PairOptions& options)
      : kernel(with), target(left), golden(right) {
    complex = !options.real_only && (is_complex(left.dtype) || is_complex(right.dtype));
    all_sums = options.all_sums;
    as_float = options.as_float32 || (fits_float32(left.dtype) && fits_float32(right.dtype));
    const std::int64_t elements = std::min(left.elements(), right.elements());
    values = static_cast<std::uint64_t>(elements) * (complex ? 2 : 1);
  }
  std::size_t chunks() const { return static_cast<std::size_t>((values + kPairChunk - 1) / kPairChunk); }
  std::size_t size_of(std::size_t chunk) const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(kPairChunk, values - chunk * kPairChunk));
  }
};

// The first place in the block with this error.
template <typename T>
void find_places(PairLanes& state, const PairBlock& block, const T* x, const T* y, std::size_t pairs) {
  PairSums& found = state.found;
  bool error_wanted = block.max_error > found.max_error;
  bool relative_wanted = block.max_relative > found.max_relative;
  for (std::size_t i = 0; i < pairs && (error_wanted || relative_wanted); ++i) {
    const auto left = static_cast<double>(x[i]), right = static_cast<double>(y[i]);
    const PairTerms terms = terms_of(left, right);
    if (error_wanted && terms.error == block.max_error) {
      found.max_error = terms.error;
      found.worst = {state.done + i, left, right};
      error_wanted = false;
    }
    if (relative_wanted && terms.relative == block.max_relative) {
      found.max_relative = terms.relative;
      found.worst_relative = {state.done + i, left, right};
      relative_wanted = false;
    }
  }
}

template <typename T>
void take_block(PairLanes& state, const PairBlock& block, const T* x, const T* y, std::size_t pairs) {
  find_places(state, block, x, y, pairs);
  take_extremes(state, block.min, block.max, block.golden_min, block.golden_max);
  PairSums& found = state.found;
  found.finite_pairs += pairs;
  found.mismatches += block.mismatches;
  found.below_thousandth += block.below_thousandth;
  found.below_five_thousandths += block.below_five_thousandths;
  found.max_nonzero_relative = greater_or_nan(found.max_nonzero_relative, block.max_nonzero_relative);
  state.done += pairs;
}

bool add_fast(const PairKernel& kernel, double (*lanes)[kLanes], PairBlock& block, const float* x, const float* y,
              std::size_t pairs, PairWork work) {
  return kernel.add32 != nullptr && kernel.add32(lanes, block, x, y, pairs, work);
}
bool add_fast(const PairKernel& kernel, double (*lanes)[kLanes], PairBlock& block, const double* x, const double* y,
              std::size_t pairs, PairWork work) {
  return kernel.add64 != nullptr && kernel.add64(lanes, block, x, y, pairs, work);
}

template <typename T>
void add_block(const PairKernel& kernel, PairLanes& state, const T* x, const T* y, std::size_t pairs) {
  const std::size_t whole = pairs - pairs % kLanes;
  std::size_t added = 0;
  if (whole > 0 && state.expect_finite) {
    PairBlock block;
    const bool identical = x == y || std::memcmp(x, y, whole * sizeof(T)) == 0;
    const PairWork work = identical ? PairWork::identical : state.all_sums ? PairWork::all : PairWork::essential;
    if (add_fast(kernel, state.lanes, block, x, y, whole, work)) {
      if (!state.all_sums) block.below_thousandth = block.below_five_thousandths = 0;
      take_block(state, block, x, y, whole);
      added = whole;
    }
  }
  const std::uint64_t finite_before = state.found.finite_pairs;
  add_pairs_scalar(state, x + added, y + added, pairs - added);
  // After a block with elements that are not finite, the next is tried the plain way; after a finite one, the quick
  // way.
  state.expect_finite = state.found.finite_pairs - finite_before == pairs - added;
}

double add_lanes(const double* lanes) {
  double sums[kLanes];
  std::copy_n(lanes, kLanes, sums);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

// A double cannot represent every 64-bit integer.
template <typename T>
void recount_mismatches(PairSums& found, const PairPlan& plan, std::uint64_t first, std::size_t count) {
  found.mismatches = 0;
  for (std::size_t i = 0; i < count; ++i) {
    T x, y;
    std::memcpy(&x, plan.target.data + (first + i) * sizeof(T), sizeof(T));
    std::memcpy(&y, plan.golden.data + (first + i) * sizeof(T), sizeof(T));
    found.mismatches += x != y;
  }
}

template <typename T>
PairSums sums_of_chunk(const PairPlan& plan, std::size_t chunk) {
  const DefaultFloatEnvironment environment;
  PairLanes state;
  state.all_sums = plan.all_sums;
  PairValues target(plan.kernel, plan.target, plan.complex), golden(plan.kernel, plan.golden, plan.complex);
  const std::uint64_t first = std::uint64_t{chunk} * kPairChunk;
  const std::size_t count = plan.size_of(chunk);
  target.seek(first);
  golden.seek(first);
  for (std::size_t done = 0; done < count;) {
    const std::size_t pairs = std::min(kPairBlock, count - done);
    const T* x = target.next<T>(pairs);
    const T* y = golden.next<T>(pairs);
    add_block(plan.kernel, state, x, y, pairs);
    done += pairs;
  }
  PairSums& found = state.found;
  found.count = count;
  found.sum = add_lanes(state.lanes[kSum]);
  found.golden_sum = add_lanes(state.lanes[kGoldenSum]);
  found.squares = add_lanes(state.lanes[kSquares]);
  found.golden_squares = add_lanes(state.lanes[kGoldenSquares]);
  found.products = add_lanes(state.lanes[kProducts]);
  found.errors = add_lanes(state.lanes[kErrors]);
  found.error_squares = add_lanes(state.lanes[kErrorSquares]);
  found.relative_errors = add_lanes(state.lanes[kRelative]);
  found.worst.index += first;
  found.worst_relative.index += first;
  const DType dtype = plan.target.dtype;
  const bool both_lie = plan.target.is_c_contiguous() && plan.golden.is_c_contiguous();
  if (dtype == plan.golden.dtype && both_lie && (dtype == DType::int64 || dtype == DType::uint64)) {
    recount_mismatches<std::uint64_t>(found, plan, first, count);
  }
  return found;
}

void add_extremes(PairSums& total, const PairSums& chunk) {
  if (chunk.finite_pairs == 0) return;
  const bool is_first = total.finite_pairs == 0;
  total.min = is_first ? chunk.min : std::min(total.min, chunk.min);
  total.max = is_first ? chunk.max : std::max(total.max, chunk.max);
  total.golden_min = is_first ? chunk.golden_min : std::min(total.golden_min, chunk.golden_min);
  total.golden_max = is_first ? chunk.golden_max : std::max(total.golden_max, chunk.golden_max);
}

// Sums of one chunk of the second pass.
struct Divergence {
  double target = 0, golden = 0, weighted = 0;  // Σp', Σq', Σp'·ln(p'/q')
};

struct Normalize {
  double min, range;
  Normalize(double least, double greatest) : min(least), range(greatest - least) {}
  double operator()(double value) const {
    const double scaled = range != 0 ? (value - min) / range : value;
    return std::max(scaled, 0x1p-23);
  }
};

template <typename T>
Divergence divergence_of_chunk(const PairPlan& plan, const PairSums& sums, std::size_t chunk) {
  const DefaultFloatEnvironment environment;
  PairValues target(plan.kernel, plan.target, plan.complex), golden(plan.kernel, plan.golden, plan.complex);
  const std::size_t count = plan.size_of(chunk);
  target.seek(std::uint64_t{chunk} * kPairChunk);
  golden.seek(std::uint64_t{chunk} * kPairChunk);
  const Normalize left(sums.min, sums.max), right(sums.golden_min, sums.golden_max);
  double lanes[3][kLanes] = {};
  for (std::size_t done = 0; done < count;) {
    const std::size_t pairs = std::min(kPairBlock, count - done);
    const T* x = target.next<T>(pairs);
    const T* y = golden.next<T>(pairs);
    for (std::size_t i = 0; i < pairs; ++i) {
      const double p = left(static_cast<double>(x[i])), q = right(static_cast<double>(y[i]));
      lanes[0][i % kLanes] += p;
      lanes[1][i % kLanes] += q;
      lanes[2][i % kLanes] += p * std::log(p / q);
    }
    done += pairs;
  }
  return {add_lanes(lanes[0]), add_lanes(lanes[1]), add_lanes(lanes[2])};
}

}  // namespace

void in_order(std::size_t count, const std::function<void(std::size_t)>& body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
}

PairSums compare_pair_with(const PairKernel& kernel, const TensorView& target, const TensorView& golden,
                           const PairOptions& options, const ForEach& for_each) {
  const PairPlan plan(kernel, target, golden, options);
  std::vector<PairSums> chunks(plan.chunks());
  for_each(chunks.size(), [&](std::size_t chunk) {
    chunks[chunk] = plan.as_float ? sums_of_chunk<float>(plan, chunk) : sums_of_chunk<double>(plan, chunk);
  });
  PairSums total;
  for (const PairSums& chunk : chunks) add(total, chunk);
  for (const auto field : {&PairSums::min, &PairSums::max, &PairSums::golden_min, &PairSums::golden_max}) {
    total.*field += 0.0;  // -0 and +0 are one extreme
  }
  return total;
}

void add(PairSums& total, const PairSums& part) {
  add_extremes(total, part);
  total.non_finite += part.non_finite;
  total.golden_non_finite += part.golden_non_finite;
  for (const auto field :
       {&PairSums::count, &PairSums::mismatches, &PairSums::finite_pairs, &PairSums::equal_non_finite,
        &PairSums::same_non_finite, &PairSums::below_thousandth, &PairSums::below_five_thousandths}) {
    total.*field += part.*field;
  }
  for (const auto field :
       {&PairSums::sum, &PairSums::golden_sum, &PairSums::squares, &PairSums::golden_squares, &PairSums::products,
        &PairSums::errors, &PairSums::error_squares, &PairSums::relative_errors}) {
    total.*field += part.*field;
  }
  if (part.max_error > total.max_error) {
    total.max_error = part.max_error;
    total.worst = part.worst;
  }
  if (part.max_relative > total.max_relative) {
    total.max_relative = part.max_relative;
    total.worst_relative = part.worst_relative;
  }
  total.max_nonzero_relative = greater_or_nan(total.max_nonzero_relative, part.max_nonzero_relative);
}

PairSums compare_pair(const TensorView& target, const TensorView& golden, const PairOptions& options,
                      const ForEach& for_each) {
  return compare_pair_with(chosen_pair_kernel(), target, golden, options, for_each);
}

double kl_divergence(const TensorView& target, const TensorView& golden, const PairSums& sums,
                     const PairOptions& options, const ForEach& for_each) {
  if (sums.count == 0 || sums.finite_pairs != sums.count) return kNoNumber;
  const PairPlan plan(chosen_pair_kernel(), target, golden, options);
  std::vector<Divergence> chunks(plan.chunks());
  for_each(chunks.size(), [&](std::size_t chunk) {
    chunks[chunk] =
        plan.as_float ? divergence_of_chunk<float>(plan, sums, chunk) : divergence_of_chunk<double>(plan, sums, chunk);
  });
  Divergence total;
  for (const Divergence& chunk : chunks) {
    total.target += chunk.target;
    total.golden += chunk.golden;
    total.weighted += chunk.weighted;
  }
  return total.weighted / total.target + std::log(total.golden / total.target);
}

}  // namespace sonde
