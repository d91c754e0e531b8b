// `sonde graph`: the inputs and readers of an op, or all ops of a step, as a table, JSON or a picture.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_graph(CLI::App& app, int& exit_status);

}  // namespace sonde
