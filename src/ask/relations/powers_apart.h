// Tables of powers of one number, such as the speeds of rotary positions: the target raises another number.
#pragma once

#include <optional>

#include "ask/relations/blame.h"

namespace sonde {

// The operator that raises it. The golden run lacks, or has otherwise, a table that follows from the powers; whole numbers
// that they are multiplied by are golden ones.
std::optional<Culprit> powers_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
