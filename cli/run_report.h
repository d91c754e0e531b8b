// The report of `sonde run`: the end of the command, the messages of its processes, the content of the dump.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "child.h"

namespace sonde {

// One message from a process of the run (sonde/console.py, tell()): `started`, `refused`, `summary`, ….
struct RunMessage {
  std::string kind, text, rank;
};
std::vector<RunMessage> read_run_messages(const std::filesystem::path& file);
bool any(const std::vector<RunMessage>& all, std::string_view kind);

// On stderr, since stdout is the command's. `report` is the file that the package's processes
// appended to (sonde/console.py, tell()); `dump` the directory that the plan names.
void print_run_report(const std::string& program, const ChildEnd& end, const std::filesystem::path& report,
                      const std::filesystem::path& dump);

}  // namespace sonde
