// Verbs that the package's Python answers.
#pragma once

#include <string>
#include <vector>

namespace sonde {

// Runs a program of python_programs.h, which prints the answer itself, in `python` or the one beside this program.
// Returns its exit status.
int answered_by_python(const std::string& python, const char* program, const std::vector<std::string>& arguments);

}  // namespace sonde
