// Numbers in files: little-endian, at any offset.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace sonde {

static_assert(std::endian::native == std::endian::little);

// The caller has checked that the bytes exist.
template <typename Number>
Number little(std::string_view bytes, std::size_t offset) {
  Number value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

}  // namespace sonde
