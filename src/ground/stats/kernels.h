// The kernels that add elements to Moments: one per instruction set, and "scalar", which runs
// everywhere and defines the answer.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "ground/stats/moments.h"
#include "sonde/dtype.h"

namespace sonde {

// Adds elements at `data` (any alignment), the first of which is element `moments.count` of the walk. All of them
// belong to one block; a vector kernel requires that `moments.count` is a multiple of kLanes, or of kGroupElements for a
// type that is added in groups. Returns the number of added elements, a multiple of the same, at most `elements`.
// Advances neither `moments.count` nor the block.
using AddElements = std::size_t (*)(Moments& moments, const std::byte* data, std::size_t elements);

inline constexpr std::size_t kDTypes = 25;

struct Kernel {
  std::string_view name;                 // as in SONDE_KERNEL=avx2 and in `sonde info`
  std::array<AddElements, kDTypes> add;  // by DType; null for those without statistics
};

// The scalar kernel: adds all elements, from any lane.
const Kernel& scalar_kernel();

// The kernel of that name, of any kind of kernels that have names; null if there is none.
template <class Kernel>
const Kernel* find_kernel(std::span<const Kernel> kernels, std::string_view name) {
  const auto found = std::ranges::find(kernels, name, &Kernel::name);
  return found != kernels.end() ? &*found : nullptr;
}

// The kernels that this CPU can run, fastest first; the last is the scalar one.
std::span<const Kernel> kernels();

// The kernel in use: the fastest, or the one that SONDE_KERNEL names if it runs here. Chosen once.
const Kernel& chosen_kernel();

// summarize() with a kernel of the caller's choice.
Statistics summarize_with(const Kernel& kernel, const TensorView& view);

}  // namespace sonde
