// The elements of a container in NumPy's types: the resulting type, and those of less than a byte, or of formats
// that no processor computes with, decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "sonde/dtype.h"

namespace sonde {

struct CannElements {
  DType dtype = DType::undefined;  // their type, or, if `decoded`, the resulting type
  std::uint8_t bits = 8;           // of one element in the file
  bool decoded = false;            // the bytes of the file are not elements of `dtype`

  // Bytes of `count` elements in the file; all elements fit when `count` does 60 bits.
  std::uint64_t bytes(std::uint64_t count) const { return count / 8 * bits + (count % 8 * bits + 7) / 8; }
};

// By CANN's number. Nothing for what has no numbers in it (strings, variants), and for types nobody has defined yet.
//   INT4, INT2: int8. UINT2, UINT1: uint8. HIFLOAT8, FLOAT6_*, FLOAT4_*: float32. UNDEFINED: int8, byte by byte.
std::optional<CannElements> cann_elements(std::int32_t data_type);

// Elements [first, first + count) of a type that is `decoded`, as elements of its dtype. `data`: the first byte of the
// tensor. Elements of less than a byte begin in the lowest bits, but for UINT1, whose first is the highest.
void decode_cann(std::int32_t data_type, const std::byte* data, std::uint64_t first, std::uint64_t count,
                 std::byte* out);

}  // namespace sonde
