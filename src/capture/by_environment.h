// Sessions of programs that name no configuration themselves: the environment names it, and `sonde run`, which set the
// environment, reads their report. python/sonde/environment.py and console.py do the same for programs in Python.
#pragma once

#include <string>
#include <string_view>

namespace sonde {

// SONDE_CONFIG, else MINDSPORE_DUMP_CONFIG; empty where neither is set, or where SONDE_OFF turns Sonde off.
std::string configuration_of_environment();

// Adds an entry to the report; false where `sonde run` did not start this process. Kinds: "started", "refused",
// "summary".
bool report_to_run(std::string_view kind, std::string_view text);

}  // namespace sonde
