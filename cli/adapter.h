// `sonde adapter`: the library that watches PyTorch, compiled beforehand.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_adapter(CLI::App& app, int& exit_status);

}  // namespace sonde
