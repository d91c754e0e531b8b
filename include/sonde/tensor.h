// TensorView: a tensor somebody else owns, seen for the length of one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sonde/dtype.h"
#include "sonde/export.h"

namespace sonde {

enum class DeviceType : std::uint8_t { cpu = 0, cuda = 1, other = 255 };

struct TensorView {
  DType dtype = DType::undefined;
  DeviceType device = DeviceType::cpu;
  bool conjugate = false;  // torch's lazy bits: the bytes are not yet conjugated / negated
  bool negative = false;
  const std::byte* data = nullptr;        // first element; null only when elements() == 0
  std::span<const std::int64_t> shape;    // elements per dimension; empty for a scalar
  std::span<const std::int64_t> strides;  // in elements, as many as shape

  SONDE_EXPORT std::int64_t elements() const;  // product of shape; 1 for a scalar
  SONDE_EXPORT std::uint64_t bytes() const;    // elements() * item_bytes: the size a C-order copy would have
  SONDE_EXPORT bool is_c_contiguous() const;   // the bytes in memory are the bytes of a C-order copy
  SONDE_EXPORT bool is_dense() const;  // elements fill one block of memory without gaps or overlap, in any order
};

// Writes the elements to `out` (bytes() bytes) in C order, conjugate and negative bits resolved.
SONDE_EXPORT void copy_c_order(const TensorView& view, std::byte* out);

// "(2,3)" with `open`/`close` as given, no spaces; a scalar gives "()".
SONDE_EXPORT std::string shape_text(std::span<const std::int64_t> shape, char open, char close);

}  // namespace sonde
