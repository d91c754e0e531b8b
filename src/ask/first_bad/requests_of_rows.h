// The requests of a serving engine whose rows of a tensor hold bad values.
#pragma once

#include <string>
#include <vector>

#include "read/catalog/catalog.h"
#include "read/measure/slot_values.h"

namespace sonde {

// Lines of evidence: "in rows of request 7: position 3-5", and how many other requests the step worked on. Empty where
// the tensor has no row for each token or request, or its values are not in the dump.
std::vector<std::string> requests_evidence(const CatalogRank& rank, const CatalogStep& step,
                                           const CatalogTensor& tensor, SlotValues::Want bad_wanted);

}  // namespace sonde
