// Clipping hides a factor: gradients that are twice the golden ones have twice the norm, and clipped to a largest norm they
// are the golden ones. In the next step their norm may be below it.
#pragma once

#include <cstdint>
#include <vector>

#include "ask/unsharded/whole_step.h"

namespace sonde {

// The golden op takes a number of gradients (their norm), the ranks' gradients are a number of times the golden ones, and
// only gradients divided by that number fit again. `readers`: of each golden op.
bool is_hidden_by_clipping(const WholeStep& step, const std::vector<std::vector<std::uint32_t>>& readers,
                           std::uint32_t golden);

}  // namespace sonde
