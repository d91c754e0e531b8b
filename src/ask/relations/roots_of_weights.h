// The weight that a tensor is a view or copy of.
#pragma once

#include <cstdint>
#include <vector>

#include "ask/relations/pool.h"

namespace sonde {

// By tensor of a pool: the weight that it is a view or copy of; kNoOp: none. `is_weight` by tensor; empty: parameters.
std::vector<std::uint32_t> roots_of(const Pool& pool, const std::vector<char>& is_weight);

}  // namespace sonde
