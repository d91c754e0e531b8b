// Which parameter or data of the target is which of the golden dump: by name, by values, or by the ops that read it.
#pragma once

#include <cstdint>
#include <vector>

#include "ask/compare/compare_side.h"
#include "ask/compare/match_ops.h"

namespace sonde {

// Numbers what comes from outside (CompareInput::outside). Data with the same values are the same, whatever their
// order; else names decide.
void number_outside(CompareSide& target, CompareSide& golden, const SameValues& same_values);

// Gives the target's parameters the names of the golden ones (CompareInput::name), where matched ops of the forward pass
// read them under other names. Their gradients and states follow. True if any name changed.
bool rename_parameters(CompareSide& target, const CompareSide& golden, const std::vector<OpMatch>& matches,
                       const SameValues& same_values);

// By op: a number of the parameter that an op of the optimizer concerns; 0: none, or several.
std::vector<std::uint64_t> updated_parameters(const CompareSide& side);

}  // namespace sonde
