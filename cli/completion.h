// sonde completion: a script that lets a shell complete verbs, options and their words.
#pragma once

#include <CLI/CLI.hpp>

namespace sonde {

// Covers all verbs of `app`, those added later too.
void add_completion(CLI::App& app, int& exit_status);

}  // namespace sonde
