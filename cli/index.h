// `sonde index`: saves what looking through a large dump brings up.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_index(CLI::App& app, int& exit_status);

}  // namespace sonde
