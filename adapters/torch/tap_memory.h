// Memory of the kernels that serve taps alone. Between runs of compiled graphs some of it is kept: the system takes
// memory back from a process that frees many megabytes at once, and gives each page anew at its next use.
#pragma once

namespace sonde_torch {

// Gives back what no tensor uses.
void release_tap_memory();

}  // namespace sonde_torch
