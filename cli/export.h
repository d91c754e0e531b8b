// sonde export: the content of a dump, in forms that other programs read.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_export(CLI::App& app, int& exit_status);

}  // namespace sonde
