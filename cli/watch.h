// `sonde watch`: conditions checked on the tensors of a dump.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_watch(CLI::App& app, int& exit_status);

}  // namespace sonde
