// What the ops of a step come to, for verbs that count and need no more.
#pragma once

#include <vector>

#include "catalog/catalog.h"

namespace sonde {

// By rank and step. Looks at every file, on all cores.
std::vector<std::vector<StepSum>> step_sums(const Catalog& catalog);

}  // namespace sonde
