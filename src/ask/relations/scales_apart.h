// The number by which the scores of an attention are scaled: of queries, keys and scores together.
#pragma once

#include <optional>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

// An attention whose queries and keys are golden: the operator that scales, if all that do give another scale than the
// golden one's. `op`: the product, or a step behind it.
std::optional<NumberApart> scale_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                       const std::vector<std::uint32_t>& ops);

}  // namespace sonde
