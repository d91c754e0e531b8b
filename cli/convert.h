// `sonde convert`: binary files of a dump as .npy files.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_convert(CLI::App& app, int& exit_status);

}  // namespace sonde
