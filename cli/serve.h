// `sonde serve`: shows dumps in a browser, and answers programs.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_serve(CLI::App& app, int& exit_status);

}  // namespace sonde
