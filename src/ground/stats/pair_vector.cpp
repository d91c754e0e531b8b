// The vector kernels of pair.h, compiled once for each instruction set (Highway includes this file again for each).
#include <vector>

#include "ground/stats/kernels.h"
#include "ground/stats/pair_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ground/stats/pair_vector.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ground/stats/kernel_list.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
#include "ground/stats/pair_vector-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {

void fill_pair_kernel([[maybe_unused]] PairKernel& kernel) {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  kernel.add32 = add_pairs<Values32>;
  kernel.add64 = add_pairs<Values64>;
  kernel.from_float16 = widen_float16;
  kernel.from_bfloat16 = widen_bfloat16;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sonde {
std::span<const PairKernel> pair_kernels() {
  static const std::vector<PairKernel> list =
      list_kernels(SONDE_FILLS(PairKernel, fill_pair_kernel), scalar_pair_kernel(),
                   [](const PairKernel& kernel) { return kernel.add32 != nullptr; });
  return list;
}

const PairKernel& chosen_pair_kernel() {
  static const PairKernel& chosen = [named = find_kernel(pair_kernels(), kernel_name())]() -> const PairKernel& {
    return named != nullptr ? *named : pair_kernels().front();
  }();
  return chosen;
}

}  // namespace sonde
#endif  // HWY_ONCE
