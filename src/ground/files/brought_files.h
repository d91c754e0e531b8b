// Files that a source brings when they are first read (sonde/file_source.h). Every function that opens, lists or
// measures files of a dump asks here first; without a source that costs one load.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>

#include "ground/files/packed_path.h"
#include "sonde/file_source.h"

namespace sonde {

// The files below `root`, a path without links, come from `source` for the rest of this process. Texts for users say
// `name` in place of that path; empty: they say the path.
void add_file_source(const std::filesystem::path& root, const std::string& name, FileSource source);

namespace brought {

extern std::atomic<bool> has_sources;

bool is_below_root(const std::filesystem::path& path);

}  // namespace brought

inline bool is_brought(const std::filesystem::path& path) {
  return brought::has_sources.load(std::memory_order_relaxed) && brought::is_below_root(path);
}

// Afterwards the file is complete, or it does not exist. Fails if it cannot be brought.
Status bring_file(const std::filesystem::path& path);
// The file with the bytes of a tensor in a pack, alone; empty if the pack itself is here.
Result<std::filesystem::path> bring_part(const PackedPath& packed);
// Afterwards names and sizes are those of the source.
Status bring_names(const std::filesystem::path& directory);
Status bring_tree(const std::filesystem::path& directory);

// `text` with the names of sources in place of their paths.
std::string with_source_names(std::string text);

}  // namespace sonde
