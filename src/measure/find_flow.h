// How the data of a step flow: what the dump says, or what equal values tell.
#pragma once

#include "catalog/catalog.h"

namespace sonde {

// What the dump says or, where it says nothing, what equal values show; tensors without statistics are then read (those
// that cannot be read stay without an edge).
enum class FlowKnown { by_dump, by_values, not_at_all };
FlowKnown find_flow(const CatalogRank& rank, CatalogStep& step);

}  // namespace sonde
