// A norm that the target writes out, and the golden run computes at once: what is inside of it has no statistics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

// `op` applies `weight` to what follows from data that a golden norm reads with another weight of this size: its name.
// `roots` and `golden_roots` of roots_of().
std::optional<std::string> weight_of_norm_behind(const Pool& target, const Pool& golden,
                                                 const RelationJudgement& judgement, std::uint32_t op,
                                                 std::uint32_t weight, const std::vector<std::uint32_t>& roots,
                                                 const std::vector<std::uint32_t>& golden_roots);

}  // namespace sonde
