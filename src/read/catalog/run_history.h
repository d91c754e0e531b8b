// Finds the step before a step, in the same graph.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "read/catalog/catalog.h"

namespace sonde {

struct PreviousStep {
  std::optional<std::uint32_t> step;    // index into the rank's steps; empty: there is none, or it was not dumped
  std::optional<std::uint64_t> number;  // number of that step, also if it was not dumped; empty: there is none
  bool from_history = true;             // false: it is unknown which steps ran; this is the next lower dumped one
};

class RunHistory {
 public:
  // Read from the journal; else from the files execution_order/ms_global_execution_order_graph_{id}.csv.
  explicit RunHistory(const CatalogRank& rank) : rank_(rank) {}

  PreviousStep before(std::uint32_t step);

 private:
  const std::vector<std::uint64_t>* iterations_of(std::uint32_t graph);
  std::optional<std::uint32_t> find(StepId id) const;

  const CatalogRank& rank_;
  std::map<std::uint32_t, std::optional<std::vector<std::uint64_t>>> by_graph_;
};

}  // namespace sonde
