// StepOrder: the order in time of the steps of all ranks. Each graph counts its own steps, so numbers alone do not say
// whether an evaluation came before a training step; and a rank that had more data is ahead in its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "read/catalog/catalog.h"

namespace sonde {

class StepOrder {
 public:
  // By the times at which they began. Clocks of ranks may differ: those of a rank whose times lie before or behind all of
  // the longest one's are moved by what their common steps are apart. Without times, by number, then graph.
  explicit StepOrder(std::span<const CatalogRank* const> ranks);

  // Of a step of one of these ranks. Ranks that run a step together have it at the same place.
  std::size_t place_of(const CatalogRank& rank, const StepId& id) const;

 private:
  using Key = std::pair<std::uint32_t, std::uint64_t>;  // graph and number
  std::map<Key, std::size_t> places_;
  std::map<std::pair<const CatalogRank*, Key>, Key> others_;  // steps that run with one of another number
};

}  // namespace sonde
