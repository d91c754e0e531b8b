// The abilities of the CPU.
#pragma once

#include <string_view>
#include <vector>

namespace sonde {

// Those that kernels may use, such as `avx2`, by the names of the CPU's maker; empty for an unknown CPU.
std::vector<std::string_view> cpu_features();

}  // namespace sonde
