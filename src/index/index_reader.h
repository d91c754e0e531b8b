// Reads a catalog, or the requested part of one, from the tables of an index.
#pragma once

#include "index/index.h"
#include "index/sqlite.h"
#include "index/tree_snapshot.h"

namespace sonde {

// Checks that it is an index of this version, for the dump with this real path.
Status check_index(Database& database, const std::filesystem::path& file, const std::filesystem::path& root);

Result<std::vector<SourceState>> read_sources(Database& database);

// The statistics in eleven columns, max to zero_count, of a row of `tensors` with these flags.
KnownStatistics statistics_in(const Statement& row, int first, std::uint32_t flags);

Result<Catalog> read_index(Database& database, const CatalogQuery& query);

}  // namespace sonde
