// Programs with libtorch that `sonde run` starts: the library that records them, loaded before they begin.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sonde {

// The value of LD_PRELOAD with which `command` is recorded. Empty where it needs none: it is a script, has no libtorch, or
// is linked with Sonde. The library is built if it is missing; where that fails, stderr says why. `scratch`: a directory
// for temporary files.
std::optional<std::string> preload_for(const std::vector<std::string>& command, const std::filesystem::path& scratch);

}  // namespace sonde
