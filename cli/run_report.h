// What `sonde run` says at the end: how the command ended, what its processes told, what the dump holds.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "child.h"

namespace sonde {

// One thing that a process of the run told (sonde/console.py, tell()): `started`, `refused`, `summary`, ….
struct Told {
  std::string kind, text, rank;
};
std::vector<Told> read_told(const std::filesystem::path& file);
bool any(const std::vector<Told>& all, std::string_view kind);

// On stderr, since stdout is the command's. `told` is the file that the package's processes
// appended to (sonde/console.py, tell()); `dump` the directory that the plan names.
void print_run_report(const std::string& program, const ChildEnd& end, const std::filesystem::path& told,
                      const std::filesystem::path& dump);

}  // namespace sonde
