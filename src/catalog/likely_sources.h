// Where inputs come from, in dumps that do not say it: an output before them that is equal in all that is known of both.
#pragma once

#include "catalog/catalog.h"

namespace sonde {

// Sets `source` and `source_is_likely` of inputs that have none, to the last output before them in the step with the same
// type, shape and checksum or statistics. Tensors of which too little is known (constants are alike everywhere) stay
// without. Names inputs that are a parameter of the module around the op, where the dump lists those.
void add_likely_sources(CatalogStep& step);

}  // namespace sonde
