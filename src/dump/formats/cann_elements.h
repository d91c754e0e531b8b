// The elements of a container in NumPy's types: the resulting type, and the decoding of elements that have less than a
// byte or a format that no processor computes with.
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

  // Bytes of `count` elements in the file. Does not overflow if `count` fits 60 bits.
  std::uint64_t bytes(std::uint64_t count) const { return count / 8 * bits + (count % 8 * bits + 7) / 8; }
};

// By CANN's number. Empty for types without numbers (strings, variants) and for undefined types.
//   INT4, INT2: int8. UINT2, UINT1: uint8. HIFLOAT8, FLOAT6_*, FLOAT4_*: float32. UNDEFINED: int8, byte by byte.
std::optional<CannElements> cann_elements(std::int32_t data_type);

// Elements [first, first + count) of a `decoded` type, as elements of its dtype. `data`: the first byte of the tensor.
// Elements of less than a byte begin in the lowest bits, except UINT1, which begins in the highest.
void decode_cann(std::int32_t data_type, const std::byte* data, std::uint64_t first, std::uint64_t count,
                 std::byte* out);

}  // namespace sonde
