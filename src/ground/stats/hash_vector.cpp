// The vector kernels of multi_hash.h, compiled once for each instruction set (Highway includes this file again for each).
#include <algorithm>
#include <vector>

#include "ground/stats/hash_kernels.h"
#include "ground/stats/kernels.h"
#include "ground/stats/sha1_instructions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ground/stats/hash_vector.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ground/stats/kernel_list.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
#include "ground/stats/hash_vector-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {

void fill_hash_kernel([[maybe_unused]] HashKernel& kernel) {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  kernel.md5 = {HashWidth{kHashLanes, add_md5_blocks<1>}, HashWidth{2 * kHashLanes, add_md5_blocks<2>}};
  auto* const next = std::ranges::copy(sha1_instruction_widths(), kernel.sha1.begin()).out;
  next[0] = {kHashLanes, add_sha1_blocks<1>};
  next[1] = {2 * kHashLanes, add_sha1_blocks<2>};
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sonde {
std::span<const HashKernel> hash_kernels() {
  static const std::vector<HashKernel> list =
      list_kernels(SONDE_FILLS(HashKernel, fill_hash_kernel), scalar_hash_kernel(),
                   [](const HashKernel& kernel) { return kernel.md5[0].add != nullptr; });
  return list;
}

const HashKernel& chosen_hash_kernel() {
  static const HashKernel& chosen = [named = find_kernel(hash_kernels(), kernel_name())]() -> const HashKernel& {
    return named != nullptr ? *named : hash_kernels().front();
  }();
  return chosen;
}

}  // namespace sonde
#endif  // HWY_ONCE
