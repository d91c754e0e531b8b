#include "ground/stats/cpu_features.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace sonde {

std::vector<std::string_view> cpu_features() {
  std::vector<std::string_view> features;
  [[maybe_unused]] const auto add = [&features](bool present, std::string_view name) {
    if (present) features.push_back(name);
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  add(__builtin_cpu_supports("sse4.2"), "sse4.2");
  add(__builtin_cpu_supports("avx"), "avx");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512vl"), "avx512vl");
#elif defined(__aarch64__)
  const unsigned long has = getauxval(AT_HWCAP);
  add((has & HWCAP_ASIMD) != 0, "neon");
  add((has & HWCAP_AES) != 0, "aes");
  add((has & HWCAP_ASIMDHP) != 0, "fp16");
  add((has & HWCAP_SVE) != 0, "sve");
#endif
  return features;
}

}  // namespace sonde
