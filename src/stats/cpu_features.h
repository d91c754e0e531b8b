// What the CPU can do.
#pragma once

#include <string_view>
#include <vector>

namespace sonde {

// What the kernels may use, as `avx2`, in the words of the CPU's maker; empty for one that is not known here.
std::vector<std::string_view> cpu_features();

}  // namespace sonde
