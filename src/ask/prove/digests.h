// Compares the results of two runs of one command, as recorded by python/sonde/prove.py.
#pragma once

#include <filesystem>

#include "contract/command_answers.h"

namespace sonde {

// Two directories that runs wrote with SONDE_PROVE.
RunsCompared compare_digests(const std::filesystem::path& first, const std::filesystem::path& second);

// Without `different_by_sonde`. Line numbers from 1 in `first`; greater ones for lines that `second` has more.
// `any_order`: several processes wrote, so neither the order of their lines is defined nor, if they write without
// buffers, the order of the pieces of a line. It is enough that the characters are the same.
StdoutCompared compare_output(const std::filesystem::path& first, const std::filesystem::path& second, bool any_order);

}  // namespace sonde
