// CRC-32, as in zip files.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sonde {

// The CRC of the previous bytes, whose CRC is `before` (0 for none), followed by these.
std::uint32_t crc32(std::uint32_t before, const std::byte* data, std::size_t bytes);

}  // namespace sonde
