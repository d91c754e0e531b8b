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

// The same with the sides exchanged: `op` is a norm of the target that reads `data` and `weight`, and the golden one is
// written out: the weight of this size that it reads, if not this one.
std::optional<std::string> weight_of_written_norm(const Pool& golden, const RelationJudgement& judgement,
                                                  std::uint32_t data, std::uint32_t weight,
                                                  const std::vector<std::uint32_t>& golden_roots);

// The golden norm reads what is computed of this golden weight, such as one more than it: `norm` does not read another one.
bool reads_what_follows_from(const Pool& golden, std::uint32_t norm, std::uint32_t weight);

}  // namespace sonde
