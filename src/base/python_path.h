// PYTHONPATH for a Python of ours: without its empty and relative parts, which mean the current directory, and that may be
// somebody else's dump.
#pragma once

#include <string>

namespace sonde {

// Empty: the variable is to be left out.
std::string safe_python_path();

}  // namespace sonde
