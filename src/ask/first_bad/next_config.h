// next_config: a configuration for the next run, which records the data that first_bad lacked.
#pragma once

#include <string>

#include "ask/first_bad/first_bad.h"
#include "read/catalog/catalog.h"

namespace sonde {

// JSON of MindSpore's dialect, which Sonde reads in every host: tensors and statistics of the suspects in the step
// before the result and in its own, into a directory beside the dump. Empty if nothing was found.
std::string next_config(const Catalog& catalog, const FirstBad& report);

}  // namespace sonde
