// Dumps whose operators have no inputs, as a folder of files: what follows from what is not known.
#pragma once

#include "ask/relations/blame.h"

namespace sonde {

bool has_inputs(const Pool& pool);
// False: they follow from values, and a tensor without readers need not be a result.
bool knows_edges(const Pool& pool);

// Where edges follow from values, the last result decides: if it is golden, what was doubted before has no effect, and if
// nothing was found, the order of the operators shows the first one that differs.
void settle_without_edges(const Pool& target, const Pool& golden, RelationJudgement& judgement);

// Other tools keep a running mean as the operator has left it: it is never the weight to blame.
void drop_running_statistics(const Pool& target, RelationJudgement& judgement);

}  // namespace sonde
