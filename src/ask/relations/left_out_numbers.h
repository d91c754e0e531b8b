// An operator of the golden run that is called with a number, and that the target lacks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

// The operator of the group that does what the golden run does behind the one that is lacking; only its line does so.
std::optional<NumberApart> left_out_with_number(const Pool& target, const Pool& golden,
                                                const RelationJudgement& judgement,
                                                const std::vector<std::uint32_t>& group);

}  // namespace sonde
