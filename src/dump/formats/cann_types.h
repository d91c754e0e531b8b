// The element types of CANN's dump container, by the numbers of its enumeration (which is not that of GE or ACL).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sonde/dtype.h"

namespace sonde {

inline constexpr std::int32_t kCannUndefined = 0;

// The number of `dtype`; kCannUndefined for a type that CANN lacks (two of the 8-bit floats).
std::int32_t cann_type(DType dtype);
// The type with this number; `undefined` if PyTorch has no such type, or if an element has less than a byte (INT4,
// UINT1).
DType dtype_of_cann(std::int32_t number);
// "FLOAT8_E5M2"; "type 99" for a number without a name.
std::string cann_type_name(std::int32_t number);
// With or without "DT_", as in tables.
DType dtype_of_cann_name(std::string_view name);

}  // namespace sonde
