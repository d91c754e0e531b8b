// The vector kernels of multi_hash.h, compiled once for each instruction set (Highway includes this file again for each).
#include <vector>

#include "stats/hash_kernels.h"
#include "stats/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/hash_vector.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
#include "stats/hash_vector-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {

void fill_hash_kernel([[maybe_unused]] HashKernel& kernel) {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  kernel.md5 = {HashWidth{kHashLanes, add_md5_blocks<1>}, HashWidth{2 * kHashLanes, add_md5_blocks<2>}};
  kernel.sha1[0] = {kHashLanes, add_sha1_blocks};
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sonde {
namespace {

using FillHashKernel = void (*)(HashKernel&);

void add_if_it_runs(std::vector<HashKernel>& list, std::int64_t target, std::string_view name, FillHashKernel fill) {
  if (fill == nullptr || (hwy::SupportedTargets() & target) == 0) return;
  HashKernel kernel = {name, {}, {}};
  fill(kernel);
  if (kernel.md5[0].add != nullptr) list.push_back(kernel);
}

std::vector<HashKernel> list_kernels() {
  std::vector<HashKernel> list;
  add_if_it_runs(list, HWY_AVX3, "avx3", HWY_CHOOSE_AVX3(fill_hash_kernel));
  add_if_it_runs(list, HWY_AVX2, "avx2", HWY_CHOOSE_AVX2(fill_hash_kernel));
  add_if_it_runs(list, HWY_SSE4, "sse4", HWY_CHOOSE_SSE4(fill_hash_kernel));
  add_if_it_runs(list, HWY_SSSE3, "ssse3", HWY_CHOOSE_SSSE3(fill_hash_kernel));
  add_if_it_runs(list, HWY_NEON, "neon", HWY_CHOOSE_NEON(fill_hash_kernel));
#if defined(HWY_NEON_WITHOUT_AES)  // Highway 1.0.4 and later: what NEON is without its instructions for AES
  if (list.empty()) {
    add_if_it_runs(list, HWY_NEON_WITHOUT_AES, "neon", HWY_CHOOSE_NEON_WITHOUT_AES(fill_hash_kernel));
  }
#endif
  list.push_back(scalar_hash_kernel());
  return list;
}

}  // namespace

std::span<const HashKernel> hash_kernels() {
  static const std::vector<HashKernel> list = list_kernels();
  return list;
}

const HashKernel& chosen_hash_kernel() {
  static const HashKernel& chosen = []() -> const HashKernel& {
    for (const HashKernel& kernel : hash_kernels()) {
      if (kernel.name == kernel_name()) return kernel;
    }
    return hash_kernels().front();
  }();
  return chosen;
}

}  // namespace sonde
#endif  // HWY_ONCE
