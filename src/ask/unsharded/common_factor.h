// Gradients in a half type may be some per cent apart by rounding, and statistics do not show where. If most of those that
// the optimizer reads are the same number of times the golden ones, that is none: they are divided by another number.
#pragma once

#include <optional>

#include "ask/unsharded/step_joiner.h"

namespace sonde {

// Nothing: they have no factor in common, or are known by values.
std::optional<double> common_factor_of_gradients(const StepJoiner& joiner);

}  // namespace sonde
