// The operators of a side between what corresponds and results that do not.
#pragma once

#include <cstdint>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

// A result: nothing but an optimizer or the program reads it. `forward_only`: as if there were no backward pass.
bool is_end(const Pool& pool, std::uint32_t tensor, bool has_gradients, bool forward_only);

// Operators of the region that `op` depends on, and itself.
std::vector<std::uint32_t> before_in(const Pool& pool, const Region& region, std::uint32_t op);

// The numbers that the forward pass ends with, in order, if each begins a backward pass, or if it is the only one of one
// step. Others may be those of parts of a batch.
std::vector<std::uint32_t> losses_of(const Pool& pool);

bool is_sum(const Pool& pool, std::uint32_t op);

// Of both sides, of a judgement whose standings are known.
void find_regions(const Pool& target, const Pool& golden, RelationJudgement& judgement);

}  // namespace sonde
