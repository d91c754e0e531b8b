// Tensors without a counterpart that golden results show to be right: what an operator computes of them is golden. A table
// of angles that all layers read is right if one layer makes golden heads of it.
#pragma once

#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

// By tensor of the target: all of it goes into golden results, by operators that keep an error.
std::vector<char> shown_by_use(const Pool& target, const RelationJudgement& judgement);

}  // namespace sonde
