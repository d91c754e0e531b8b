// Infinities that a quotient turns into zeros: x / sqrt(mean(x ** 2)) where x ** 2 is too large for its type, a gradient
// norm that overflows and clips every gradient to 0. Nothing is infinite behind the quotient, and everything is wrong.
#pragma once

#include <cstdint>
#include <vector>

#include "ask/first_bad/flow_graph.h"

namespace sonde {

// The ops from the infinity to the one that makes the zeros; empty: none does.
std::vector<std::uint32_t> lost_behind(const FlowGraph& graph, std::uint32_t value);

}  // namespace sonde
