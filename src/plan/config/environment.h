// Variables of the environment, and the configuration that they name for a program that names none itself.
#pragma once

#include <string>

namespace sonde {

// The value of a variable; empty where it is not set.
std::string variable_of_environment(const char* name);

// Whether SONDE_OFF leaves this process alone: set, and neither empty nor "0".
bool is_off_by_environment();

// SONDE_CONFIG, else MINDSPORE_DUMP_CONFIG; empty where neither is set, or where SONDE_OFF turns Sonde off.
// python/sonde_early.py does the same for programs in Python.
std::string configuration_of_environment();

}  // namespace sonde
