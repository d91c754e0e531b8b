// Shape: sizes of the dimensions, as files and frameworks give them; -1 means an unknown size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

namespace sonde {

// The number of elements: 1 for a scalar, 0 if a size is negative. Wraps around beyond 2^64.
inline std::uint64_t element_count(std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0));
  return count;
}

// False if a size is negative or the product of the sizes exceeds what memory can hold. Zeros are left out of the
// product: strides of an empty shape overflow like those of any other.
inline bool has_sane_strides(std::span<const std::int64_t> shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) return false;
    if (size > 0 && elements > std::numeric_limits<std::int64_t>::max() / 16 / size) return false;
    elements *= std::max<std::int64_t>(size, 1);
  }
  return true;
}

}  // namespace sonde
