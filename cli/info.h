// `sonde info`: what this build and this machine can do.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_info(CLI::App& app, int& exit_status);

}  // namespace sonde
