// --engine: the ranks of a dump are indexed first, side by side; then the verb reads the indices as one catalog.
#pragma once

#include <filesystem>
#include <string>

namespace sonde {

// Indexes the ranks whose index is missing or out of date. Where that is not possible the verb reads the dump itself,
// after a line on stderr. False, with the exit status set: the verb must end. Nothing happens without an engine.
bool index_ranks(const std::filesystem::path& dump, const std::string& engine, int& exit_status);

}  // namespace sonde
