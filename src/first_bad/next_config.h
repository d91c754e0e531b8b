// next_config: a configuration for the next run, which records what first_bad would have liked to see.
#pragma once

#include <string>

#include "catalog/catalog.h"
#include "first_bad/first_bad.h"

namespace sonde {

// JSON of MindSpore's dialect, which Sonde reads in every host: tensors and statistics of the suspects in the step before the
// answer and in its own, into a directory beside the dump. Empty when nothing was found.
std::string next_config(const Catalog& catalog, const FirstBad& report);

}  // namespace sonde
