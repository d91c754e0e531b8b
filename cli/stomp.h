// sonde stomp: tensors whose memory changed although no operator wrote it.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

void add_stomp(CLI::App& app, int& exit_status);

}  // namespace sonde
