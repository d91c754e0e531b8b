// Golden weights that the target joined to one, in another order than the biases beside them or the program's parts.
#pragma once

#include <cstdint>
#include <optional>

#include "ask/relations/weight_culprits.h"

namespace sonde {

// By statistics, which do not show the order of joined parts: the golden weights of which `weight` is joined are read by
// golden products of the same data, and what `op` computes of them is none of these products, nor all of them.
std::optional<Culprit> joined_in_another_order(const WeightCulprits& all, std::uint32_t op, std::uint32_t data,
                                               std::uint32_t weight);

}  // namespace sonde
