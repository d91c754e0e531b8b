// Finds in the target's region the operator that makes results differ.
#pragma once

#include "ask/relations/blame.h"

namespace sonde {

// Of a judgement whose regions are known and not empty.
Culprit op_to_blame(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
