// Reports of a program to the `sonde run` that started it. python/sonde/console.py does the same for programs in Python.
#pragma once

#include <string_view>

namespace sonde {

// Adds an entry to the report; false where `sonde run` did not start this process. Kinds: "started", "refused",
// "summary".
bool report_to_run(std::string_view kind, std::string_view text);

}  // namespace sonde
