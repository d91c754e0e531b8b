// The limits of an answer and of a request; `status` has them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sonde::server {

struct Limits {
  std::uint64_t rows = 1000;
  std::uint64_t exported_rows = 100'000;  // of a table as CSV or Arrow
  std::uint64_t histogram_bins = 512;
  std::uint64_t values_bytes = 4 << 20;
  std::uint64_t picture_cells = 4096;  // each way
  std::size_t read_bytes = 256 << 20;  // larger files of tensors are mapped
};
inline constexpr Limits kLimits;

inline constexpr std::uint64_t kMostCurves = 200;        // of an answer of `curves`
inline constexpr std::uint64_t kMostCurveColumns = 400;  // each

}  // namespace sonde::server
