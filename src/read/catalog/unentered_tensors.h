// Tensors that the files and tables of a rank hold but its journal lacks: a run was killed, or its disk full, before it
// could enter them, or entries are damaged. Names give op, side, slot, step and time; the source of an input is
// unknown.
#pragma once

#include <cstddef>

#include "read/catalog/catalog_readers.h"

namespace sonde {

// The additions: tensors with a file, tensors with only a row of a table, and the number of ops the journal lacked.
struct Unentered {
  std::size_t files = 0, rows = 0, ops = 0;
};

// Adds to `rank`, read from its journal, the extra contents of `tree`, the same directory read by names and tables, in
// the order of time. Restores lost op names.
Unentered add_unentered_tensors(CatalogRank tree, const StepFilter& filter, const JournalRemains& remains,
                                CatalogRank& rank, TextPool& texts);

}  // namespace sonde
