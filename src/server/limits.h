// The limits of an answer and of a request; `status` has them.
#pragma once

#include <cstdint>

namespace sonde::server {

struct Limits {
  std::uint64_t rows = 1000;
  std::uint64_t histogram_bins = 512;
  std::uint64_t values_bytes = 4 << 20;
  std::uint64_t picture_cells = 4096;  // each way
};
inline constexpr Limits kLimits;

}  // namespace sonde::server
