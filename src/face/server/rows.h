// Rows: the tensors, or the ops, that a filter accepts, in an order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "face/server/parameters.h"
#include "face/server/snapshot.h"
#include "read/index/row_fields.h"

namespace sonde::server {

enum class RowsOf : std::uint8_t { ops, tensors };

struct RowQuery {
  RowsOf of = RowsOf::tensors;
  Where where;
  std::string filter, sort;
  std::string key;                                       // the same for equal queries
  std::function<bool()> is_gone = [] { return false; };  // nobody waits for the rows any more
};

// The statistics of the tensors in one slot of an op.
struct SlotRow {
  std::optional<KnownStatistics> statistics;
  std::uint64_t position = 0;
};
inline constexpr auto kSlot =
    std::tuple(StatisticsField{&SlotRow::statistics}, RowField{"position", &SlotRow::position});
inline constexpr const char* kOfSlot = "FROM tensors WHERE op_id=? AND is_input=? AND slot=?";

// Numbers of ops or tensors in `facts`. Kept for the next page of the same query. Fails when nobody waits for them.
using RowList = std::shared_ptr<const std::vector<std::uint32_t>>;
Result<RowList> find_rows(Snapshot& snapshot, const Facts& facts, const RowQuery& query);

}  // namespace sonde::server
