// `sonde show`: one tensor.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_show(CLI::App& app, int& exit_status);

}  // namespace sonde
