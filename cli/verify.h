// sonde verify: checks a dump for damaged and missing files, with reasons; and rebuilds files from the journal.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_verify(CLI::App& app, int& exit_status);

}  // namespace sonde
