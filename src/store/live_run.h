// Whether a run records into a directory at this moment.
#pragma once

#include <filesystem>

namespace sonde {

// `own_directory`: …/.dump_metadata/sonde, whose file `owner` a run keeps locked. False where the file system cannot lock.
// Never waits, and changes nothing.
bool is_recording(const std::filesystem::path& own_directory);

}  // namespace sonde
