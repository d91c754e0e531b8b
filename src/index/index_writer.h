// Writes a catalog into the tables of an index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "catalog/catalog.h"
#include "index/sqlite.h"
#include "index/tree_snapshot.h"
#include "sonde/result.h"

namespace sonde {

// Called after each step, with the number of written steps and of all.
using StepsWritten = std::function<void(std::uint64_t done, std::uint64_t all)>;

// Writes a new, sealed file. If it cannot be written, nothing is left of it. `root`: the real path of the dump.
Status write_index(const Catalog& catalog, const std::filesystem::path& root, const TreeSnapshot& snapshot,
                   const std::filesystem::path& file, const StepsWritten& written = {});

// The same tables in memory.
Result<Database> make_index(const Catalog& catalog, const std::filesystem::path& root, const TreeSnapshot& snapshot,
                            const StepsWritten& written = {});

}  // namespace sonde
