// One watched tensor with all of its watchpoints, and what its file says about it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ask/watch/previous_tensor.h"
#include "ask/watch/watch_judge.h"
#include "ask/watch/watchpoints.h"

namespace sonde {

struct WatchEntry {  // one tensor under one watchpoint
  TensorPlace place;
  std::uint32_t watchpoint = 0;
  friend auto operator<=>(const WatchEntry&, const WatchEntry&) = default;
};

struct WatchItem {
  TensorPlace place;
  std::size_t first = 0, last = 0;  // its entries
  bool wants_previous = false;
  PreviousTensor previous;
  std::optional<bool> overflowed;  // operator_overflow, from records
  bool by_values = false;          // operator_overflow, from NaN and infinities

  bool read = false;    // its file was read
  bool copied = false;  // the facts were copied from the same file under another name
  std::string problem, previous_problem;
  bool unreadable = false, previous_unreadable = false;  // a file could not be read
  bool too_large = false;
  std::uint64_t bytes = 0;
  DType dtype = DType::undefined;  // of the file
  Dims shape;
  std::optional<KnownStatistics> statistics;  // if these suffice
  std::optional<ValueSummary> values;         // otherwise
  std::optional<PairSummary> pair;
  std::vector<ValueRange> ranges;
  std::vector<Tolerance> tolerances;
};

inline const CatalogRank& rank_of(const Catalog& catalog, const TensorPlace& place) {
  return catalog.ranks[place.rank];
}
inline const CatalogStep& step_of(const Catalog& catalog, const TensorPlace& place) {
  return rank_of(catalog, place).steps[place.step];
}
inline const CatalogOp& op_of(const Catalog& catalog, const TensorPlace& place) {
  return step_of(catalog, place).ops[place.op];
}
inline const CatalogTensor& tensor_of(const Catalog& catalog, const TensorPlace& place) {
  return op_of(catalog, place).tensors[place.tensor];
}

// The watched tensors of a catalog, each once, with their watchpoints.
class WatchItems {
 public:
  WatchItems(const Catalog& catalog, std::span<const Watchpoint> watchpoints);

  const WatchCondition& condition(const WatchEntry& entry) const { return watchpoints_[entry.watchpoint].condition; }
  std::span<const WatchEntry> entries_of(const WatchItem& item) const {
    return std::span(entries_).subspan(item.first, item.last - item.first);
  }
  const std::vector<WatchEntry>& entries() const { return entries_; }  // in the order of the catalog
  std::vector<WatchItem>& all() { return items_; }

 private:
  void find_previous(const Catalog& catalog);

  std::span<const Watchpoint> watchpoints_;
  std::vector<WatchEntry> entries_;
  std::vector<WatchItem> items_;
};

}  // namespace sonde
