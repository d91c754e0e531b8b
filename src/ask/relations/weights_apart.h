// Weights that were not carried over, or in another order than their like in other layers.
#pragma once

#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

// Of a judgement whose regions are known: the weights to blame, in the order of their readers.
std::vector<Culprit> weights_to_blame(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
