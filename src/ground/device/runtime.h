// The two systems whose devices the statistics kernel runs on.
#pragma once

#include <cstdint>

namespace sonde::device {

enum class Runtime : std::uint8_t { cuda, rocm };

constexpr const char* runtime_name(Runtime runtime) { return runtime == Runtime::cuda ? "CUDA" : "ROCm"; }

}  // namespace sonde::device
