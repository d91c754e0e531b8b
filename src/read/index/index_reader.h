// Reads a catalog, or the requested part of one, from the tables of an index.
#pragma once

#include "read/index/index.h"
#include "read/index/sqlite.h"
#include "read/index/tree_snapshot.h"

namespace sonde {

// Checks that it is an index of this version, for the dump with this real path.
Status check_index(Database& database, const std::filesystem::path& file, const std::filesystem::path& root);

Result<std::vector<SourceState>> read_sources(Database& database);

Result<Catalog> read_index(Database& database, const CatalogQuery& query);

}  // namespace sonde
