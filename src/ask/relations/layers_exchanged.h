// Weights of layers that were carried over to other layers.
#pragma once

#include <optional>

#include "ask/relations/blame.h"

namespace sonde {

// All weights of the target's layers are golden ones, and the golden run reads those of its layers in another order: the
// first weight that another layer should have. The names say which weights are alike, the runs the order of the layers.
std::optional<Culprit> exchanged_layers(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

}  // namespace sonde
