// One side goes on from the last result of the other.
#pragma once

#include <optional>

#include "ask/relations/blame.h"

namespace sonde {

// The target stops at a tensor from which the golden network goes on to a result of the same size, which the target lacks.
std::optional<Culprit> early_end(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

// The target goes on from a last golden result, with a golden weight or a number of its network: a bias is added twice.
std::optional<Culprit> late_end(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
