// `sonde run`: a training under a configuration, with a report at the end.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sonde {

// Adds the verb; after it has run, `exit_status` is the status of the command. `after_dashes`: the words after `--` as they
// were given; CLI11 would take `[1,2]` for two.
void add_run(CLI::App& app, int& exit_status, std::vector<std::string> after_dashes);

}  // namespace sonde
