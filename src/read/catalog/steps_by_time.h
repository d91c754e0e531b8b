// The steps of files whose path says none: in CANN's trees the directory of a rank itself has the ops outside modules, of
// every step.
#pragma once

#include "read/catalog/catalog_readers.h"

namespace sonde {

// Moves such ops of `tree`, which was read by names, to the step that had begun last at their time: by the journal, and
// behind its end by the times of the ops whose path says their step.
CatalogRank in_their_steps(CatalogRank tree, const JournalRemains& remains);

}  // namespace sonde
