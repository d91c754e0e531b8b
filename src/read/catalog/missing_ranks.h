// Warnings that follow from the ranks of a dump: it lacks some, or another version of Sonde recorded some.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "read/catalog/catalog.h"

namespace sonde {

struct RankOrigin {
  std::uint32_t rank = 0;
  std::string sonde_version;     // empty: unknown
  std::uint64_t world_size = 0;  // processes of the program; 0: unknown
};

// A line for each: "the dump lacks ranks 1, 4-6: …", of ranks below the largest and those that the program had; "different
// versions of Sonde recorded the ranks: …". None of a `dump` that is the directory of one rank.
std::vector<std::string> rank_notes(const std::filesystem::path& dump, const std::vector<RankOrigin>& ranks);
std::vector<std::string> rank_notes(const Catalog& catalog);  // none, too, if its path holds several dumps

}  // namespace sonde
