// `sonde ls`: lists the content of a dump.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_ls(CLI::App& app, int& exit_status);

}  // namespace sonde
