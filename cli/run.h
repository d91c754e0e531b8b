// `sonde run`: a training under a configuration, with a report at the end.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

// Adds the verb; after it has run, `exit_status` is the status of the command.
void add_run(CLI::App& app, int& exit_status);

}  // namespace sonde
