// `sonde stats`: the statistics of its tensors.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_stats(CLI::App& app, int& exit_status);

}  // namespace sonde
