// Elements of a golden tensor in another order of axes, where two axes are equally long: it has the shape that is wanted.
#pragma once

#include <optional>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

// `op` reads a golden tensor with two equally long axes exchanged: perhaps it should not.
bool reads_exchanged(const Pool& target, const Pool& golden, const RelationJudgement& judgement, std::uint32_t op);

// By statistics, which do not show the order of elements: the operator that moved what `op` reads, and no golden operator of
// its kind reads it in this order.
std::optional<NumberApart> order_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                       std::uint32_t op);

}  // namespace sonde
