// The list of the kernels that Highway compiled from one file, for each of its instruction sets. To be included after
// <hwy/highway.h>, and used under HWY_ONCE.
//
//   list_kernels(SONDE_FILLS(Kernel, fill_kernel), scalar_kernel(), [](const Kernel& kernel) { ... });
//
// `fill_kernel(Kernel&)` lies in HWY_NAMESPACE; it leaves the kernel empty where the instruction set has none.
#pragma once

#include <hwy/highway.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "ground/stats/kernels.h"

namespace sonde {

template <class Kernel>
struct KernelFill {
  std::int64_t target;
  std::string_view name;  // as in SONDE_KERNEL
  void (*fill)(Kernel&);  // null: not compiled
};

#if defined(HWY_NEON_WITHOUT_AES)  // Highway 1.0.4 and later: what NEON is without its instructions for AES
#define SONDE_FILL_NEON_WITHOUT_AES(fill) {HWY_NEON_WITHOUT_AES, "neon", HWY_CHOOSE_NEON_WITHOUT_AES(fill)},
#else
#define SONDE_FILL_NEON_WITHOUT_AES(fill)
#endif

// Fastest first.
#define SONDE_FILLS(Kernel, fill)                                                                \
  std::vector<KernelFill<Kernel>> {                                                              \
    {HWY_AVX3, "avx3", HWY_CHOOSE_AVX3(fill)}, {HWY_AVX2, "avx2", HWY_CHOOSE_AVX2(fill)},        \
        {HWY_SSE4, "sse4", HWY_CHOOSE_SSE4(fill)}, {HWY_SSSE3, "ssse3", HWY_CHOOSE_SSSE3(fill)}, \
        {HWY_NEON, "neon", HWY_CHOOSE_NEON(fill)}, SONDE_FILL_NEON_WITHOUT_AES(fill)             \
  }

// Those that this CPU can run and that are not empty, one of each name; the last is the scalar one.
template <class Kernel, class HasAny>
std::vector<Kernel> list_kernels(const std::vector<KernelFill<Kernel>>& fills, const Kernel& scalar, HasAny has_any) {
  std::vector<Kernel> list;
  for (const KernelFill<Kernel>& one : fills) {
    if (one.fill == nullptr || (hwy::SupportedTargets() & one.target) == 0) continue;
    Kernel kernel{};
    kernel.name = one.name;
    one.fill(kernel);
    if (has_any(kernel) && find_kernel<Kernel>(list, one.name) == nullptr) list.push_back(kernel);
  }
  list.push_back(scalar);
  return list;
}

}  // namespace sonde
