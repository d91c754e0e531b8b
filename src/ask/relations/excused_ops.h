// Operators whose results have no counterpart although nothing is wrong: parts of sums that the two runs add up in another
// order or with the other sign, factors that they multiply by at another place, layouts of their own, and what another use shows to be right.
#pragma once

#include "ask/relations/blame.h"
#include "ask/relations/own_layout.h"

namespace sonde {

// The target's region without them.
Region without_excused(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                       const OwnLayout& own_layout);

}  // namespace sonde
