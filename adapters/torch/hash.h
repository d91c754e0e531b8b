// Hashes that live as long as the process: keys of tables, never written to a file.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace sonde_torch {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0xD6E8FEB86659FD93ULL;
  return hash ^ (hash >> 32);
}

inline std::uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>{}(text); }

}  // namespace sonde_torch
