// The place of the file of a saved index.
#pragma once

#include <filesystem>

namespace sonde {

// $XDG_CACHE_HOME/sonde/index, else ~/.cache/sonde/index; empty if neither is known.
std::filesystem::path index_directory();
// The file for a dump in that directory, by the dump's real path; empty if no such directory is available.
std::filesystem::path index_file_of(const std::filesystem::path& real_dump);

// The directory there with an index for each rank of a dump, and the file in it for the rank with these metadata.
std::filesystem::path rank_indices_of(const std::filesystem::path& real_dump);
std::filesystem::path rank_index_file_of(const std::filesystem::path& real_dump, const std::filesystem::path& metadata);

}  // namespace sonde
