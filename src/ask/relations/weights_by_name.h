// Weights that have another content than their names say.
#pragma once

#include <cstdint>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

// The name of the target's weight ends like that of the golden one.
bool is_named_as(const Pool& target, std::uint32_t weight, const Pool& golden, std::uint32_t golden_weight);

// Two that are exchanged, and those that were left as they began: zeros, ones, or only some rows are golden.
std::vector<Culprit> weights_by_name(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
