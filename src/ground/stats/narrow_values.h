// The numbers of the codes of floats of 8 and 16 bits.
#pragma once

#include <cstdint>

#include "ground/tensor/small_floats.h"
#include "sonde/dtype.h"

namespace sonde {

inline double float16_value(std::uint32_t code) {
  return static_cast<double>(float16_to_float(static_cast<std::uint16_t>(code)));
}

inline double bfloat16_value(std::uint32_t code) {
  return static_cast<double>(bfloat16_to_float(static_cast<std::uint16_t>(code)));
}

template <DType kDType>
double float8_value(std::uint32_t code) {
  return static_cast<double>(kFloat8Values<kDType>[code & 0xFF]);
}

// True for those that are added in groups (moments.h).
constexpr bool is_grouped(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float8_e4m3fn ||
         dtype == DType::float8_e5m2 || dtype == DType::float8_e4m3fnuz || dtype == DType::float8_e5m2fnuz;
}

}  // namespace sonde
