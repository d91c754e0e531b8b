// sonde export: writes the content of a dump in the formats of other programs.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_export(CLI::App& app, int& exit_status);

}  // namespace sonde
