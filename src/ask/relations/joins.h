// Joins of whole tensors, as far as statistics show them: counts, sums and squares add up, extremes combine.
#pragma once

#include "ask/relations/relation.h"

namespace sonde {

// Relates tensors of the target that the search left over and that have no values: to two or three golden tensors that
// they are joined of, to one that they repeat, or to one that they are a part of together with others. `met` by golden
// tensor.
void relate_by_sums(const Pool& target, const Pool& golden, std::vector<Relation>& relations, std::vector<char>& met);

}  // namespace sonde
