// RankIndices: an index for each rank of a dump. Processes make them side by side, each some of them; together they are the
// catalog of the dump, whoever made which.
//
//   for (const RankToIndex& rank : *ranks_to_index(dump)) build_rank_index(rank);   // each anywhere
//   Result<RankIndices> ranks = RankIndices::open(dump);
//   Result<Catalog> catalog = ranks->load();
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "read/catalog/rank_parts.h"
#include "read/index/index.h"
#include "read/index/sqlite.h"
#include "sonde/result.h"

namespace sonde {

class RankIndices {
 public:
  // Fails with `not_found` if a rank lacks one, or the dump cannot be read rank by rank; like Index::open otherwise.
  static Result<RankIndices> open(const std::filesystem::path& dump);
  // That of one rank, as if the dump had no others. `root`: the real path of the dump.
  static Result<RankIndices> open_rank(const std::filesystem::path& root, const JournalPlace& place);

  // As Index::load; once.
  Result<Catalog> load(const CatalogQuery& query = {});
  // The part of one rank that the query takes, by its place in the catalog: a catalog of this rank alone.
  Result<Catalog> load_rank(std::size_t rank, const CatalogQuery& query) const;
  Result<Catalog> load_rank(std::size_t rank, Database& database, const CatalogQuery& query) const;
  Result<Database> open_rank_index(std::size_t rank) const;

 private:
  struct Part {
    JournalPlace place;
    std::filesystem::path file;
  };
  Status add_frame(const Part& part);
  void put_in_order(const std::filesystem::path& root);

  std::filesystem::path dump_;
  std::vector<Part> parts_;  // by the place of the rank in the catalog
  Catalog frames_;           // without ops
};

// A rank to be indexed.
struct RankToIndex {
  std::string directory;  // with its metadata, relative to the dump
  JournalPlace place;
  std::filesystem::path file;  // of its index
  bool is_right = false;       // there is one, of the rank as it is now
};

// Those in the named directories that there are; without names all of a dump. None: it cannot be read rank by rank. Fails like
// open_catalog.
Result<std::vector<RankToIndex>> ranks_to_index(const std::filesystem::path& dump,
                                                const std::vector<std::string>& directories = {});

// Makes one, as build_index does.
Result<IndexReport> build_rank_index(const RankToIndex& rank);

}  // namespace sonde
