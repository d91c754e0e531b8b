// The data flow of a step, from the dump or from equal values.
#pragma once

#include "read/catalog/catalog.h"

namespace sonde {

// From the dump or, if it has none, from equal values; then tensors without statistics are read. Tensors that cannot be
// read have no edge.
enum class FlowKnown { by_dump, by_values, not_at_all };
FlowKnown find_flow(const CatalogRank& rank, CatalogStep& step);

}  // namespace sonde
