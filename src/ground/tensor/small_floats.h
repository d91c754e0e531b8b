// Float formats of one and two bytes, widened exactly. One element at a time: the tables and the reference.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "sonde/dtype.h"

namespace sonde {

constexpr float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr float float16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1F;
  const std::uint32_t fraction = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent == 0) {  // fraction * 2^-24, exact in float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

namespace float8 {

// sign, exponent, fraction; the only special values are those that the callers add.
constexpr float finite(std::uint8_t bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7F) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  int power = (exponent == 0 ? 1 : exponent) - bias - fraction_bits;
  float value = static_cast<float>(significand);
  for (; power > 0; --power) value *= 2;
  for (; power < 0; ++power) value /= 2;
  return (bits & 0x80) != 0 ? -value : value;
}

constexpr float decode(DType dtype, std::uint8_t bits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  switch (dtype) {
    case DType::float8_e4m3fn:
      return (bits & 0x7F) == 0x7F ? kNan : finite(bits, 3, 7);
    case DType::float8_e5m2:
      if ((bits & 0x7F) == 0x7C) return (bits & 0x80) != 0 ? -kInf : kInf;
      return (bits & 0x7F) > 0x7C ? kNan : finite(bits, 2, 15);
    case DType::float8_e4m3fnuz:
      return bits == 0x80 ? kNan : finite(bits, 3, 8);
    case DType::float8_e5m2fnuz:
      return bits == 0x80 ? kNan : finite(bits, 2, 16);
    default:  // e8m0fnu: a power of two, 2^-127 … 2^127
      if (bits == 0xFF) return kNan;
      return std::bit_cast<float>(bits == 0 ? 0x00400000U : static_cast<std::uint32_t>(bits) << 23);
  }
}

constexpr std::array<float, 256> make_table(DType dtype) {
  std::array<float, 256> table = {};
  for (unsigned code = 0; code < 256; ++code) {
    table[code] = decode(dtype, static_cast<std::uint8_t>(code));
  }
  return table;
}

}  // namespace float8

// The value of every code of one fp8 format.
template <DType kDType>
inline constexpr std::array<float, 256> kFloat8Values = float8::make_table(kDType);

}  // namespace sonde
