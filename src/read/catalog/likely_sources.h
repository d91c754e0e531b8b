// Finds the origin of inputs in dumps that do not say it: an earlier output that equals the input in all known facts.
#pragma once

#include "read/catalog/catalog.h"

namespace sonde {

// Sets `source` and `source_is_likely` of inputs without a source to the last earlier output in the step with the same
// type, shape and checksum or statistics. Skips tensors with too few known facts (constants are alike everywhere).
// Names inputs that are a parameter of the module around the op, if the dump lists those.
void add_likely_sources(CatalogStep& step);

}  // namespace sonde
