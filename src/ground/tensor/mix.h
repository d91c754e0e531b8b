// One step of a hash: for tables in memory, never written to a file.
#pragma once

#include <cstdint>

namespace sonde {

inline void mix(std::uint64_t& hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  hash ^= hash >> 29;
}

}  // namespace sonde
