// Writes a catalog into the tables of an index.
#pragma once

#include <filesystem>

#include "catalog/catalog.h"
#include "index/tree_snapshot.h"
#include "sonde/result.h"

namespace sonde {

// Writes a new, sealed file. If it cannot be written, nothing is left of it. `root`: the real path of the dump.
Status write_index(const Catalog& catalog, const std::filesystem::path& root, const TreeSnapshot& snapshot,
                   const std::filesystem::path& file);

}  // namespace sonde
