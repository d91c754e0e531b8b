// Tensors that the files and tables of a rank hold and its journal does not: a run was killed, or its disk full, before it
// could enter them, or entries are damaged. Names tell op, side, slot, step and time; what an input comes from is not known.
#pragma once

#include <cstddef>

#include "catalog/catalog_readers.h"

namespace sonde {

// What was added: tensors with a file, tensors of which only a row of a table tells, and how many ops the journal lacked.
struct Unentered {
  std::size_t files = 0, rows = 0, ops = 0;
};

// Adds to `rank`, read from its journal, what `tree`, the same directory read by names and tables, has more, in the order of
// time. Ops whose name was lost get it back.
Unentered add_unentered_tensors(const CatalogRank& tree, const StepFilter& filter, const JournalRemains& remains,
                                CatalogRank& rank, TextPool& texts);

}  // namespace sonde
