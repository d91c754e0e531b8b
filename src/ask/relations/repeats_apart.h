// A tensor that is repeated in turn, where the golden run repeats each element beside itself.
#pragma once

#include <cstdint>
#include <optional>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

// By statistics, which are the same either way: the first such operator of the target up to `last`.
std::optional<NumberApart> repeats_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                         std::uint32_t last);

}  // namespace sonde
