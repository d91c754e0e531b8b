// The ranks of a dump one by one: what processes that share the work read, each some of them.
#pragma once

#include <filesystem>
#include <vector>

#include "read/catalog/catalog.h"
#include "read/catalog/find_dumps.h"

namespace sonde {

struct RankPlaces {
  std::vector<JournalPlace> journals;    // in the order of their paths
  std::vector<CatalogProblem> problems;  // of looking for them
};

// No journal: the dump can only be read as a whole. It is of another writer, in part or all of it, or lies inside a rank.
RankPlaces rank_places(const std::filesystem::path& real_dump);

// A catalog of one rank: as open_catalog reads it among others, except for CatalogRank::dump.
Catalog open_rank(const JournalPlace& place);

// Sets CatalogRank::dump of ranks that were read one by one, which are in the order of rank_places.
void name_joined_dumps(const std::filesystem::path& real_dump, Catalog& catalog);

}  // namespace sonde
