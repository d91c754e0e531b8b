// The file of a saved index: its place, and the seal that shows that no byte of it has changed.
#pragma once

#include <filesystem>
#include <string_view>

#include "sonde/result.h"

namespace sonde {

// $XDG_CACHE_HOME/sonde/index, else ~/.cache/sonde/index; empty if neither is known.
std::filesystem::path index_directory();
// The file for a dump in that directory, by the dump's real path; empty if no such directory is available.
std::filesystem::path index_file_of(const std::filesystem::path& real_dump);

// The value in the table `meta` until the file is sealed.
inline constexpr std::string_view kUnsealed = "sonde-seal:0000000000000000";

// Writes the checksum of the file over `kUnsealed` in it.
Status seal_index(const std::filesystem::path& file);
// Fails with `not_found`, or with `corrupt` if the file is not an index, or not complete.
Status check_seal(const std::filesystem::path& file);

}  // namespace sonde
