// Sums that the two runs add up in another order, or with the other sign.
#pragma once

#include "ask/relations/blame.h"

namespace sonde {

// The target's region without sums that are only the beginning of one whose terms the golden run adds up in another order,
// and without the negative of a golden sum: they have no counterpart although nothing is wrong.
Region without_partial_sums(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
