// Totals over the ops of a step, for verbs that only count.
#pragma once

#include <vector>

#include "catalog/catalog.h"

namespace sonde {

// By rank and step. Looks at every file, on all cores.
std::vector<std::vector<StepSum>> step_sums(const Catalog& catalog);

}  // namespace sonde
