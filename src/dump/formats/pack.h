// A pack: the tensors of a step one after another in one file (docs/format.md, "Packs"). It consists of sections, each
// with a head that lists the tensors whose bytes follow it, so a pack that was cut off is readable up to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ground/files/packed_path.h"
#include "sonde/result.h"

namespace sonde {

inline constexpr std::size_t kPackUnit = 4096;           // sections begin and end at multiples of it
inline constexpr std::size_t kPackAlignment = 64;        // tensors begin at multiples of it
inline constexpr std::size_t kPackHeadBytes = 16 << 10;  // of each section
inline constexpr std::size_t kPackFieldBytes = 32;       // of the head before its list of paths
inline constexpr std::uint64_t kMostPackSection = 1ULL << 40;

// The fields of a head and the paths, each followed by a zero byte; without the zeros up to kPackHeadBytes.
std::string pack_head(std::uint64_t section_bytes, std::string_view paths);

// The contents of a pack by its heads, in order.
struct PackContents {
  std::vector<std::string> paths;  // relative to the rank's directory, as the journal has them
  // The reason why the list ends before the file; empty: it is complete. `is_tail`: a run was killed there.
  std::string problem;
  bool is_tail = false;
};
// `name`: the pack's path relative to the rank's directory. Paths that lead elsewhere than into packs of the rank, or
// beyond the end of this one, are damage. Fails with `not_found`, `io` and, without any head, `corrupt`.
Result<PackContents> read_pack(const std::filesystem::path& file, std::string_view name);

}  // namespace sonde
