// The graph of a step with the edges that its dump does not contain, or contains only in part.
#pragma once

#include "ask/first_bad/flow_graph.h"

namespace sonde {

// Of step `step` of the rank; the step after it shows which ops read its final state.
FlowGraph flow_graph_of(const CatalogRank& rank, std::size_t step, HealthReader& health, bool only_overflows);

}  // namespace sonde
