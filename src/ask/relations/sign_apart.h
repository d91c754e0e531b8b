// A sum where the golden run has a difference, or the other way round.
#pragma once

#include <optional>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

// Sums and norms show it: |a - b|² = 2|a|² + 2|b|² - |a + b|².
std::optional<NumberApart> sign_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
