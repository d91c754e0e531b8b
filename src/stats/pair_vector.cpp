// The vector kernels of pair.h, compiled once for each instruction set (Highway includes this file again for each).
#include <limits>
#include <vector>

#include "stats/kernels.h"
#include "stats/pair_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/pair_vector.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
#include "stats/pair_vector-inl.h"
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
namespace {

using FillPairKernel = void (*)(PairKernel&);

void add_if_it_runs(std::vector<PairKernel>& list, std::int64_t target, std::string_view name, FillPairKernel fill) {
  if (fill == nullptr || (hwy::SupportedTargets() & target) == 0) return;
  PairKernel kernel = {name, nullptr, nullptr, nullptr, nullptr};
  fill(kernel);
  if (kernel.add32 != nullptr) list.push_back(kernel);
}

std::vector<PairKernel> list_kernels() {
  std::vector<PairKernel> list;
  add_if_it_runs(list, HWY_AVX3, "avx3", HWY_CHOOSE_AVX3(fill_pair_kernel));
  add_if_it_runs(list, HWY_AVX2, "avx2", HWY_CHOOSE_AVX2(fill_pair_kernel));
  add_if_it_runs(list, HWY_SSE4, "sse4", HWY_CHOOSE_SSE4(fill_pair_kernel));
  add_if_it_runs(list, HWY_SSSE3, "ssse3", HWY_CHOOSE_SSSE3(fill_pair_kernel));
  add_if_it_runs(list, HWY_NEON, "neon", HWY_CHOOSE_NEON(fill_pair_kernel));
#if defined(HWY_NEON_WITHOUT_AES)  // Highway 1.0.4 and later: what NEON is without its instructions for AES
  if (list.empty()) {
    add_if_it_runs(list, HWY_NEON_WITHOUT_AES, "neon", HWY_CHOOSE_NEON_WITHOUT_AES(fill_pair_kernel));
  }
#endif
  list.push_back(scalar_pair_kernel());
  return list;
}

}  // namespace

std::span<const PairKernel> pair_kernels() {
  static const std::vector<PairKernel> list = list_kernels();
  return list;
}

const PairKernel& chosen_pair_kernel() {
  static const PairKernel& chosen = []() -> const PairKernel& {
    for (const PairKernel& kernel : pair_kernels()) {
      if (kernel.name == kernel_name()) return kernel;
    }
    return pair_kernels().front();
  }();
  return chosen;
}

}  // namespace sonde
#endif  // HWY_ONCE
