// sonde completion: a script that lets a shell complete verbs, options and their words.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

// Covers all verbs of `app`, including those that are added later.
void add_completion(CLI::App& app, int& exit_status);

}  // namespace sonde
