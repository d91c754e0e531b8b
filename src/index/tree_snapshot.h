// TreeSnapshot: shows whether anything in a dump has changed, without looking at a million files.
//
// A file that is added, removed or renamed moves the time of its directory. A file that is written in place does not, so
// the files that a catalog reads to know what is there (tables, journals, graphs, containers) are looked at one by one;
// files that hold one tensor only where there are few of them, since a catalog takes from them no more than their names.
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
  std::uint64_t inode = 0, size = 0;  // size: 0 of a directory
  std::int64_t mtime_ns = 0, ctime_ns = 0;
  friend bool operator==(const SourceState&, const SourceState&) = default;
};

struct TreeSnapshot {
  std::vector<SourceState> sources;
  std::uint64_t files = 0;           // below the root, whether they are among `sources` or not
  std::int64_t newest_mtime_ns = 0;  // of `sources`

  // Symbolic links to directories are not followed. `outside`: further trees or files; they need not be there.
  static Result<TreeSnapshot> take(const std::filesystem::path& root,
                                   const std::vector<std::filesystem::path>& outside);
};

// The first of `sources` that has changed, as text for the user; empty: none.
std::string changed_source(const std::filesystem::path& root, const std::vector<SourceState>& sources);

}  // namespace sonde
