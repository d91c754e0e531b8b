// `sonde info`: the abilities of this build and this machine.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_info(CLI::App& app, int& exit_status);

}  // namespace sonde
