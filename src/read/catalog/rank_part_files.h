// The files in which processes that share the ranks of a dump say what they found, one for each rank: one of them joins these.
//
//   const Json key = part_key(rank, question);                   // before the rank is read
//   write_part(parts, rank, key, found);                         // anywhere
//   if (std::optional<Json> found = read_part(parts, rank, key)) ...
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ground/base/json.h"
#include "read/catalog/rank_parts.h"
#include "sonde/result.h"

namespace sonde {

struct RankInDump {
  std::string directory;  // with its metadata, relative to the dump
  JournalPlace place;
};

struct RanksOfDump {
  std::filesystem::path root;            // the dump without links
  std::vector<RankInDump> ranks;         // none: it cannot be read rank by rank
  std::vector<CatalogProblem> problems;  // of looking for them
};

// Fails with `not_found`.
Result<RanksOfDump> ranks_of_dump(const std::filesystem::path& dump);

// The facts that a part depends on: it is of no use for another question, by another version, or when the rank has changed.
Json part_key(const RankInDump& rank, Json question);

// Makes the directory. Complete, or not there.
Status write_part(const std::filesystem::path& parts, const RankInDump& rank, const Json& key, Json found);
// Empty where there is none of this key.
std::optional<Json> read_part(const std::filesystem::path& parts, const RankInDump& rank, const Json& key);

}  // namespace sonde
