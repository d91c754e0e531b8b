// PYTHONPATH for our own Python processes, without empty and relative parts: those mean the current directory, which
// may be
//  somebody else's dump.
#pragma once

#include <string>

namespace sonde {

// Empty: leave the variable out.
std::string safe_python_path();

}  // namespace sonde
