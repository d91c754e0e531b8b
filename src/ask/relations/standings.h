// Judges each tensor of the target by its own error beside those of what its operator reads.
#pragma once

#include <cstdint>

#include "ask/relations/blame.h"

namespace sonde {

void judge_standings(const Pool& target, const Pool& golden, RelationJudgement& judgement);

inline bool is_bad(Standing standing) { return standing == Standing::alone || standing == Standing::beyond; }

// The first operator of the forward pass before `op` that gives equal elements of a golden tensor, where no golden operator
// does: zeros behind a relu, which a later sum hides. kNoOp: none.
std::uint32_t first_flat(const Pool& target, const RelationJudgement& judgement, std::uint32_t op);

// The target's tensor is one golden tensor, within rounding, and not by chance.
inline bool is_surely_golden(const RelationJudgement& judgement, std::uint32_t tensor) {
  const Relation& relation = judgement.relations[tensor];
  return relation.is_whole() && !relation.weak && !is_bad(judgement.standings[tensor]);
}

}  // namespace sonde
