// PartialCatalog: a catalog from a saved index that gets the ops of a step when they are needed.
//
//   Result<PartialCatalog> part = PartialCatalog::open(dump);
//   part->read_ops(0, 7);                        // then part->catalog().ranks[0].steps[7].ops is complete
//   if (Status read = part->check(); !read) ...  // something could not be read: use the dump itself
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "read/index/index.h"
#include "read/index/index_rows.h"
#include "sonde/result.h"

namespace sonde {

// One thread.
class PartialCatalog {
 public:
  // Fails like Index::open.
  static Result<PartialCatalog> open(const std::filesystem::path& dump);

  // All but the ops. Texts and addresses of ops stay valid as long as this object lives.
  const Catalog& catalog() const { return *catalog_; }
  // Places of ranks and steps are those in the catalog. Nothing happens if the ops are already there.
  void read_ops(std::size_t rank, std::size_t step);
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
  PartialCatalog(Index index, Catalog catalog);
  Status find_rows();

  std::unique_ptr<Index> index_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<IndexRows> rows_;
  std::vector<std::vector<StepRows>> steps_;  // by rank and step
  Status failure_;
};

}  // namespace sonde
