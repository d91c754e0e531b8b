// Masks of attention: how many scores they hide, as types and counts show it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

// The share of the scores that this mask hides, or shows, if it is one of flags or one that is added. Nothing: it is none.
std::optional<double> share_of_mask(const Pool& pool, std::uint32_t tensor);

// The operator that made the mask that `op` only moves or negates, unless it is golden; else `op`.
std::uint32_t first_maker_of_flags(const Pool& target, const RelationJudgement& judgement, std::uint32_t op);

// The first mask that `ops` of the target read and that hides another share than each mask of the golden run. Nothing if
// the golden run hides scores in a way that its dump does not show.
std::optional<NumberApart> mask_apart(const Pool& target, const Pool& golden, const std::vector<std::uint32_t>& ops);

}  // namespace sonde
