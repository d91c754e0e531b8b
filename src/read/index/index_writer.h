// Writes a catalog into the tables of an index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "read/catalog/catalog.h"
#include "read/index/sqlite.h"
#include "read/index/tree_snapshot.h"
#include "sonde/result.h"

namespace sonde {

// Called after each step, with the number of written steps and of all.
using StepsWritten = std::function<void(std::uint64_t done, std::uint64_t all)>;

// Writes a new, sealed file. If it cannot be written, nothing is left of it. `root`: the real path of the dump.
Status write_index(const Catalog& catalog, const std::filesystem::path& root, const TreeSnapshot& snapshot,
                   const std::filesystem::path& file, const StepsWritten& written = {});

// The same tables in memory, of a dump that grows: steps come as they are over.
class GrowingTables {
 public:
  // `root`: the real path of the dump.
  static Result<GrowingTables> create(const std::filesystem::path& root);
  GrowingTables(GrowingTables&&) noexcept;
  GrowingTables& operator=(GrowingTables&&) noexcept;
  ~GrowingTables();

  // Steps of the rank with this index, after all that were added.
  Status add(const CatalogRank& over, std::size_t rank);
  // The part that may still change: the ranks with their runs, the problems, and the steps that are not over. Replaces
  // that of the last call. Needed after add().
  Status set_rest(const Catalog& rest);
  std::uint64_t ops_over() const;  // the ops of the steps that were added; the ids of others are larger
  Database& database();

 private:
  struct State;
  explicit GrowingTables(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The tables in memory.
Result<Database> make_index(const Catalog& catalog, const std::filesystem::path& root, const TreeSnapshot& snapshot,
                            const StepsWritten& written = {});

}  // namespace sonde
