// `sonde index`: saves the catalog of a large dump.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_index(CLI::App& app, int& exit_status);

}  // namespace sonde
