// The npy file of one tensor: the header, byte for byte as MindSpore or NumPy writes it, and the data in the type of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sonde/dtype.h"

namespace sonde {

// Version 1.0 (2.0 if the text is too long for it), padded to 64 bytes, C order:
//   "{'descr': '<f4', 'fortran_order': False, 'shape': (2,3,), }"
// `raw_bfloat16` writes bfloat16 as `<E2`. Empty for a type that has no npy form.
std::string npy_header(DType dtype, std::span<const std::int64_t> shape, bool raw_bfloat16);

// The same header as NumPy's `save` writes it, for files that a Python tool used to write: `(2, 3)`, `(2,)`, and spaces
// so that the first size can grow to 21 digits.
std::string numpy_header(DType dtype, std::span<const std::int64_t> shape);

// True if the bytes in memory differ from those of the file: bfloat16, float8, complex32.
bool npy_needs_widening(DType dtype, bool raw_bfloat16);

// Turns `elements` elements at `in` into the type of the file at `out` (elements * info(dtype).file_bytes bytes). Only
// for types that need widening. Exact: every value of these types is a float32.
void widen_for_npy(DType dtype, const std::byte* in, std::size_t elements, std::byte* out);

}  // namespace sonde
