// sonde first-bad: the first operator whose output holds a NaN or infinity that matters.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_first_bad(CLI::App& app, int& exit_status);

}  // namespace sonde
