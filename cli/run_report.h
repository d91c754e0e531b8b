// What `sonde run` says at the end: how the command ended, the messages of its processes, the content of the dump.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "child.h"

namespace sonde {

// One message from a process of the run (sonde/console.py, tell()): `started`, `refused`, `summary`, ….
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
