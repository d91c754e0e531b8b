// The operators of a side between what corresponds and results that do not.
#pragma once

#include <cstdint>

#include "ask/relations/blame.h"

namespace sonde {

// A result: nothing but an optimizer or the program reads it. `forward_only`: as if there were no backward pass.
bool is_end(const Pool& pool, std::uint32_t tensor, bool has_gradients, bool forward_only);

// Of both sides, of a judgement whose standings are known.
void find_regions(const Pool& target, const Pool& golden, RelationJudgement& judgement);

}  // namespace sonde
