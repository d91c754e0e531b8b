// Shape: sizes of the dimensions, as files and frameworks give them; -1 stands for a size that nobody knows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace sonde {

// The number of elements: 1 of a scalar, 0 where a size is negative. Wraps around beyond 2^64.
inline std::uint64_t element_count(std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0));
  return count;
}

}  // namespace sonde
