// A weight of which some rows are a golden weight, and the others none: one of several that were fused did not arrive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ask/relations/pool.h"

namespace sonde {

// "0 to 47 of axis 0 are golden gate_proj.weight, and 48 to 95 correspond to nothing: golden up_proj.weight was not
// carried over".
// `met` by golden tensor: all of it corresponds. Nothing: no golden weight of the size of the other rows is missing.
std::optional<std::string> partly_golden(const Pool& target, std::uint32_t weight, const Pool& golden,
                                         const std::vector<char>& met);

// Of two of the same shape: "has 12 of 24 rows of golden embed.weight; …". Nothing: few rows are equal, or all.
std::optional<std::string> loaded_in_part(const PoolTensor& own, const PoolTensor& golden, std::string_view name);

// "is golden conv.weight, each row times a number of its own": a norm or a scale is folded into it. Of those that nothing of
// the target holds.
std::optional<std::string> golden_by_rows(const Pool& target, std::uint32_t weight, const Pool& golden,
                                          const std::vector<char>& met);

// A golden parameter of the first step that nothing of the target holds, and that is not far smaller than the weight: else
// the target keeps what the golden run computes, such as a table of angles. `met`: by golden tensor.
bool golden_lacks_any_for(const Pool& target, std::uint32_t weight, const Pool& golden, const std::vector<char>& met);

}  // namespace sonde
