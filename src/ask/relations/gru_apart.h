// A GRU that is written out, and an operator in it that the golden GRU does not compute.
#pragma once

#include <optional>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

// Where the golden region has a GRU, whose state is (1 - z) · n + z · state, and n = tanh(a + r · b).
std::optional<NumberApart> gru_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
