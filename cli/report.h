// `sonde report`: a dump as one HTML file.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_report(CLI::App& app, int& exit_status);

}  // namespace sonde
