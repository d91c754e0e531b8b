// Operators whose results have no counterpart although nothing is wrong: parts of sums that the two runs add up in another
// order or with the other sign, and factors that they multiply by at another place.
#pragma once

#include "ask/relations/blame.h"

namespace sonde {

// The target's region without them.
Region without_excused(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
