#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace sonde {

// Moves the items so that items[order[i]] becomes items[i]. `order`: each place once.
template <typename Item>
void reorder(std::vector<Item>& items, const std::vector<std::size_t>& order) {
  std::vector<Item> sorted;
  sorted.reserve(items.size());
  for (const std::size_t at : order) sorted.push_back(std::move(items[at]));
  items = std::move(sorted);
}

}  // namespace sonde
