// The ranks that a dump should have, by the numbers of the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "read/catalog/catalog.h"

namespace sonde {

// "the dump lacks ranks 1, 4-6: …" of ranks below the largest of these. Empty: it lacks none, or `dump` is a directory of one.
std::string missing_ranks_note(const std::filesystem::path& dump, const std::set<std::uint32_t>& there);
std::string missing_ranks_note(const Catalog& catalog);  // empty, too: its path holds several dumps

}  // namespace sonde
