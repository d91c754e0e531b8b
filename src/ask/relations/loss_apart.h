// A loss that is written out beside one operator of the golden run.
#pragma once

#include <optional>

#include "ask/relations/numbers_apart.h"

namespace sonde {

// The operator that smooths labels by another number or not at all, squares every distance where the golden loss squares
// small ones alone, or gives as its loss what the golden run adds to another one.
std::optional<NumberApart> loss_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
