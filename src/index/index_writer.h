// Writes a catalog into the tables of an index.
#pragma once

#include <filesystem>

#include "catalog/catalog.h"
#include "index/tree_snapshot.h"
#include "sonde/result.h"

namespace sonde {

// A new, sealed file; nothing is left of it when it cannot be written. `root`: the real path of the dump.
Status write_index(const Catalog& catalog, const std::filesystem::path& root, const TreeSnapshot& snapshot,
                   const std::filesystem::path& file);

}  // namespace sonde
