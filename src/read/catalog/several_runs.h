// One directory into which a program was recorded several times: the same step is there more than once.
#pragma once

#include <string>

#include "read/catalog/catalog.h"

namespace sonde {

// Two runs of the rank have a step of the same number and graph. Not so if a run goes on where another one ended.
bool has_steps_twice(const CatalogRank& rank);

// "rank 0 of 'dump' contains the same steps of 2 runs: run 0 (statistic, 2 steps), run 1 (full, 1 step)"; empty: of none.
std::string steps_twice_text(const Catalog& catalog);

}  // namespace sonde
