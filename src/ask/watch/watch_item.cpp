#include "ask/watch/watch_item.h"

#include <algorithm>
#include <map>

namespace sonde {
namespace {

// Initialisation is only checked in step 0.
bool applies(const Catalog& catalog, const Watchpoint& watchpoint, const TensorPlace& place) {
  return watchpoint.condition.info->check != WatchCheck::initialization || step_of(catalog, place).id.number == 0;
}

}  // namespace

WatchItems::WatchItems(const Catalog& catalog, std::span<const Watchpoint> watchpoints) : watchpoints_(watchpoints) {
  for (std::uint32_t w = 0; w < watchpoints_.size(); ++w) {
    for (const TensorPlace& place : watchpoints_[w].tensors) {
      if (applies(catalog, watchpoints_[w], place)) entries_.push_back({place, w});
    }
  }
  std::ranges::sort(entries_);
  entries_.erase(std::unique(entries_.begin(), entries_.end()), entries_.end());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (items_.empty() || items_.back().place != entries_[i].place) {
      items_.emplace_back();
      items_.back().place = entries_[i].place;
      items_.back().first = i;
    }
    WatchItem& item = items_.back();
    item.last = i + 1;
    item.wants_previous = item.wants_previous || needs_previous(condition(entries_[i]).info->check);
  }
  find_previous(catalog);
}

void WatchItems::find_previous(const Catalog& catalog) {
  std::map<std::uint32_t, PreviousTensors> by_rank;
  for (WatchItem& item : items_) {
    if (!item.wants_previous) continue;
    const std::uint32_t rank = item.place.rank;
    item.previous = by_rank.try_emplace(rank, catalog, rank).first->second.before(item.place);
  }
}

}  // namespace sonde
