// `sonde compare`: two dumps, op by op.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_compare(CLI::App& app, int& exit_status);

}  // namespace sonde
