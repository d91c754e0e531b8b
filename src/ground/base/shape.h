// Shape: sizes of the dimensions, as files and frameworks give them; -1 means an unknown size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace sonde {

// The number of elements: 1 for a scalar, 0 if a size is negative. Wraps around beyond 2^64.
inline std::uint64_t element_count(std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0));
  return count;
}

// The product of the sizes that are not 0, as far as strides reach: those of an empty shape overflow like those of any
// other. Nullopt if a size is negative or the product exceeds 63 bits.
inline std::optional<std::int64_t> stride_span(std::span<const std::int64_t> shape) {
  std::int64_t span = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(span, std::max<std::int64_t>(size, 1), &span)) return std::nullopt;
  }
  return span;
}

// False if a size is negative or memory cannot hold so many elements of 16 bytes.
inline bool has_sane_strides(std::span<const std::int64_t> shape) {
  const std::optional<std::int64_t> span = stride_span(shape);
  return span && *span <= std::numeric_limits<std::int64_t>::max() / 16;
}

}  // namespace sonde
