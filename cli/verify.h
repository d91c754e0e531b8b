// sonde verify: what of a dump is whole, what is missing, and why; and to make again what the journal tells.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_verify(CLI::App& app, int& exit_status);

}  // namespace sonde
