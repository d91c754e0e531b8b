// What `sonde run` says at the end: how the command ended, what its processes told, what the dump holds.
#pragma once

#include <filesystem>
#include <string>

#include "child.h"

namespace sonde {

// On stderr, since stdout is the command's. `told` is the file that the package's processes
// appended to (sonde/session.py, tell()); `dump` the directory that the plan names.
void print_run_report(const std::string& program, const ChildEnd& end, const std::filesystem::path& told,
                      const std::filesystem::path& dump);

}  // namespace sonde
