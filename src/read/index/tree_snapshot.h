// TreeSnapshot: shows whether anything in a dump has changed, without examining a million files.
//
// A file that is added, removed or renamed changes the time of its directory. A file that is written in place does not.
// So the files whose content a catalog reads (tables, journals, graphs, containers) are examined one by one. Files of
// one tensor are examined only if there are few, since a catalog uses only their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sonde/result.h"

namespace sonde {

struct SourceState {
  enum class Kind : std::uint8_t { missing = 0, directory = 1, file = 2 };
  std::string path;  // relative to the root; absolute outside of it; empty: the root
  Kind kind = Kind::missing;
  std::uint64_t inode = 0, size = 0;  // size: 0 for a directory
  std::int64_t mtime_ns = 0, ctime_ns = 0;
  friend bool operator==(const SourceState&, const SourceState&) = default;
};

struct TreeSnapshot {
  std::vector<SourceState> sources;
  std::uint64_t files = 0;           // all files below the root, also those that are not in `sources`
  std::int64_t newest_mtime_ns = 0;  // of `sources`

  // Symbolic links to directories are not followed. `outside`: further trees or files, which may be missing.
  static Result<TreeSnapshot> take(const std::filesystem::path& root,
                                   const std::vector<std::filesystem::path>& outside);
};

// The first of `sources` that has changed, as text for the user; empty: none.
std::string changed_source(const std::filesystem::path& root, const std::vector<SourceState>& sources);

}  // namespace sonde
