// Rows: the tensors, or the ops, that a filter accepts, in an order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "face/server/parameters.h"
#include "face/server/snapshot.h"

namespace sonde::server {

enum class RowsOf : std::uint8_t { ops, tensors };

struct RowQuery {
  RowsOf of = RowsOf::tensors;
  Where where;
  std::string filter, sort;
  std::string key;                                       // the same for equal queries
  std::function<bool()> is_gone = [] { return false; };  // nobody waits for the rows any more
};

// Numbers of ops or tensors in `facts`. Kept for the next page of the same query. Fails when nobody waits for them.
using RowList = std::shared_ptr<const std::vector<std::uint32_t>>;
Result<RowList> find_rows(Snapshot& snapshot, const Facts& facts, const RowQuery& query);

}  // namespace sonde::server
