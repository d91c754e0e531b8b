// Judges each tensor of the target by its own error beside those of what its operator reads.
#pragma once

#include "ask/relations/blame.h"

namespace sonde {

void judge_standings(const Pool& target, const Pool& golden, RelationJudgement& judgement);

inline bool is_bad(Standing standing) { return standing == Standing::alone || standing == Standing::beyond; }

}  // namespace sonde
