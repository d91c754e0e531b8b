// A program runs the same lines for each layer: where one layer's results are golden, another's lines are right, too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

// By statistics, which do not show the order of elements: the weight that `culprit` depends on, if its line gives golden
// results from other weights. Nothing: the line does not, or calls its operators in another way.
std::optional<Culprit> weight_of_other_layer(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                             const Culprit& culprit);

// The operators of a group that may be meant whose line gives nothing golden elsewhere, called alike. Empty: most do not.
std::vector<std::uint32_t> without_good_twin(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                             const std::vector<std::uint32_t>& group);

// Its line gives what is golden, or what leads to it, in another layer, called alike.
bool gives_golden_elsewhere(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                            std::uint32_t op);

}  // namespace sonde
