// `sonde check`: describes a configuration file in plain words, or lists all errors in it.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

// Adds the verb; after it has run, `exit_status` is 0, or 2 for a file that cannot be used.
void add_check(CLI::App& app, int& exit_status);

}  // namespace sonde
