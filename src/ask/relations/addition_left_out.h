// A result that lacks what the golden run adds to it, such as the part that goes past an operator.
#pragma once

#include <cstdint>
#include <optional>

#include "ask/relations/blame.h"

namespace sonde {

// By values: golden tensor `golden_result` is `result` and another golden tensor, which the target has, too. The
// operator that goes on without it.
std::optional<Culprit> addition_left_out(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                         std::uint32_t result, std::uint32_t golden_result);

// The same of a mask: `golden_result` is `result`, but for elements that are hidden.
std::optional<Culprit> mask_left_out(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                     std::uint32_t result, std::uint32_t golden_result);

}  // namespace sonde
