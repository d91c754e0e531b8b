// The report of `sonde run`: the end of the command, the messages of its processes, the content of the dump.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "child.h"

namespace sonde {

// One message from a process of the run (sonde/console.py, report()): `started`, `refused`, `summary`, ….
struct RunMessage {
  std::string kind, text, rank;  // rank: empty in a run of one process
  std::uint64_t process = 0;
};
std::vector<RunMessage> read_run_messages(const std::filesystem::path& file);
bool any(const std::vector<RunMessage>& all, std::string_view kind);

// Written to stderr, since stdout belongs to the command. `report` is the file to which the package's processes appended
// (sonde/console.py, report()); `dump` the directory that the plan names.
void print_run_report(const std::string& program, const ChildEnd& end, const std::filesystem::path& report,
                      const std::filesystem::path& dump);

}  // namespace sonde
