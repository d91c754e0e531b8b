// Finds out if a run is recording into a directory now.
#pragma once

#include <filesystem>

namespace sonde {

// `own_directory`: …/.dump_metadata/sonde, whose file `owner` a run keeps locked. False if the file system cannot lock.
// Never waits, and changes nothing.
bool is_recording(const std::filesystem::path& own_directory);

// Locks the open file `owner`, for as long as it is open. True: another process has the lock. A file system that cannot
// lock (some network ones) is used without a lock.
bool is_locked_elsewhere(int owner);

}  // namespace sonde
