// Weights in another order than their like in other layers.
#pragma once

#include <cstdint>

#include "ask/relations/weight_culprits.h"

namespace sonde {

// `first`: the first operator that differs.
void find_weights_unlike_other_layers(WeightCulprits& all, std::uint32_t first);

}  // namespace sonde
