// A weight that holds all elements of a golden one, but in the wrong order: with them in another order, the product is golden.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

// The first product of the target's region of which this is true: its weight. `roots` of roots_of().
std::optional<Culprit> weight_in_wrong_order(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                             const std::vector<std::uint32_t>& roots);

}  // namespace sonde
