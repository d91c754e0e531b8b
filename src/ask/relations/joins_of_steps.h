// A decoder with a cache makes in each step a part of what the golden run computes at once. Statistics of one part say
// nothing; those of all parts add up to the golden ones.
#pragma once

#include <vector>

#include "ask/relations/relation.h"

namespace sonde {

// Relates outputs of one operator in all steps, where together they are a golden tensor; what is related stays as it is.
// Returns by tensor of the target how many elements it has with its likes in the other steps, or its own.
std::vector<std::uint64_t> relate_over_steps(const Pool& target, const Pool& golden, std::vector<Relation>& relations,
                                             std::vector<char>& met);

// The same for calls of one line that follow each other in a step: experts one after the other, rows of a batch.
void relate_over_loops(const Pool& target, const Pool& golden, std::vector<Relation>& relations,
                       std::vector<char>& met);

}  // namespace sonde
