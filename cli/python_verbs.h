// Verbs that the package's Python answers.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ground/base/json.h"

namespace sonde {

// Runs a program of python_programs.h, which prints the answer itself, in `python` or the one beside this program.
// Returns its exit status.
int answered_by_python(const std::string& python, const char* program, const std::vector<std::string>& arguments);

// The text of a request to such a program: `request`, and those of `options` that are given: an empty text or list is not.
std::string request_with(Json request, std::initializer_list<std::pair<const char*, Json>> options);

}  // namespace sonde
