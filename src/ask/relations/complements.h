// Masks that say the opposite: one run marks what is hidden, the other what is seen.
#pragma once

#include <cstdint>

#include "ask/relations/pool.h"

namespace sonde {

inline bool is_flag(const PoolTensor& tensor) { return tensor.dtype() == DType::bool8; }

// The tensor of the target is true where a golden one of its size is false, and only there.
bool is_opposite_of_any(const Pool& target, std::uint32_t tensor, const Pool& golden);

}  // namespace sonde
