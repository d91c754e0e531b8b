// `sonde run`: a training under a configuration, with a report at the end.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

// Adds the verb; when it has run, `exit_status` is the command's own.
void add_run(CLI::App& app, int& exit_status);

}  // namespace sonde
