// The same question with the sides exchanged.
#pragma once

#include "ask/relations/blame.h"

namespace sonde {

// How two tensors correspond may show from one side alone: golden rows are parts of padded ones, not the other way
// round. A judgement that is not clean becomes so if all results of the golden run are found in the target. Not if only
// the call of an operator, or the last result, showed the fault.
void ask_the_other_way(Pool& target, Pool& golden, const Threads& threads, RelationJudgement& judgement);

}  // namespace sonde
