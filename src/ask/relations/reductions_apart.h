// Operators that make one number of many, and do it over others or in another way than the golden run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

// A sum where the golden run has a mean, or a mean for a sum; the largest for the smallest; a variance over other groups
// than those of the golden norm, up to operator `last`.
std::optional<NumberApart> reduction_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                           std::uint32_t last);

}  // namespace sonde
