// Blocks: what one op of one side computes, the other side computes in several on the same line of code, as a compiler
// that takes a softmax apart.
#pragma once

#include <vector>

#include "ask/compare/match_ops.h"

namespace sonde {

// One of the two has one op, or both have: such a pair replaces one that the other blocks took apart. In order; the last gives the result, and no op after it is in the block.
struct OpBlock {
  std::vector<std::uint32_t> target, golden;
};

// Of the forward pass, where both sides have ops of a line to which no op of the same work belongs. Lines are compared by
// their text: without copies of the sources there are no blocks. `same_result`: of two results, also but for rounding.
std::vector<OpBlock> find_blocks(const CompareSide& target, const CompareSide& golden,
                                 const std::vector<OpMatch>& matches, const SameValues& same_result);

}  // namespace sonde
