// PartialCatalog: a catalog from a saved index, or from one of each rank, that gets the ops of a step when they are needed.
//
//   Result<PartialCatalog> part = PartialCatalog::open(dump);
//   part->read_ops(0, 7);                        // then part->catalog().ranks[0].steps[7].ops is complete
//   if (Status read = part->check(); !read) ...  // something could not be read: use the dump itself
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "read/index/index.h"
#include "read/index/index_rows.h"
#include "read/index/rank_indices.h"
#include "sonde/result.h"

namespace sonde {

// One thread.
class PartialCatalog {
 public:
  // Fails like Index::open.
  static Result<PartialCatalog> open(const std::filesystem::path& dump);
  // One of the rank alone, from its own index. `root`: the real path of the dump.
  static Result<PartialCatalog> open_rank(const std::filesystem::path& root, const JournalPlace& place);

  // All but the ops. Texts and addresses of ops stay valid as long as this object lives, or until release().
  const Catalog& catalog() const { return *catalog_; }
  // Places of ranks and steps are those in the catalog. Nothing happens if the ops are already there.
  void read_ops(std::size_t rank, std::size_t step);
  // Frees the ops of a rank; the next call of read_ops() reads them again.
  void release(std::size_t rank);
  // The floating-point outputs of the step that have statistics.
  void each_output(std::size_t rank, std::size_t step, const std::function<void(const OutputSize&)>& take);
  // A catalog with the same ranks and steps: ops of this rank of the accepted types, those that feed them, and perhaps
  // more.
  Result<Catalog> with_makers(std::size_t rank, const std::function<bool(std::string_view op_type)>& accepts);
  Status check() const;  // fails if any of it could not be read

 private:
  struct StepRows {
    std::int64_t first_op = 0, end_op = 0;
    bool is_read = false;
  };
  // The rows of one database: of all ranks, or of one.
  struct Rows {
    std::unique_ptr<Database> own;  // of one rank
    std::unique_ptr<IndexRows> rows;
  };
  static Result<PartialCatalog> of_ranks(Result<RankIndices> ranks);
  PartialCatalog(std::unique_ptr<Index> index, std::unique_ptr<RankIndices> ranks, Catalog catalog);
  Status find_steps(Database& database, std::size_t first_rank, std::size_t ranks);
  Status open_rows(Database& database, std::size_t rank, Rows& opened);
  Result<Catalog> load_rank(std::size_t rank, const CatalogQuery& query);
  IndexRows* rows_of(std::size_t rank);
  void close_ranks();

  std::unique_ptr<Index> index_;        // of the whole dump, or
  std::unique_ptr<RankIndices> ranks_;  // of each rank
  std::unique_ptr<Catalog> catalog_;
  std::shared_ptr<std::multimap<std::size_t, std::shared_ptr<const void>>> owners_;  // as `opened_`
  std::map<std::size_t, Rows> opened_;        // by rank; 0 for all where one index has all
  std::vector<std::vector<StepRows>> steps_;  // by rank and step; none of a rank that was never opened
  Status failure_;
};

}  // namespace sonde
