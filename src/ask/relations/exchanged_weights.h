// Two weights of one size that have each other's golden values, in all layers: what reads their products shows it.
#pragma once

#include <optional>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

// `op` reads the golden product with one weight, where the golden operator of its kind reads that with another one, which
// the target has, too; or one of `group` does so with parts of one weight. `roots`: by tensor of the target, the weight
// that it is a view of.
std::optional<Culprit> exchanged_weight(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                        std::uint32_t op, const std::vector<std::uint32_t>& group,
                                        const std::vector<std::uint32_t>& roots);

}  // namespace sonde
