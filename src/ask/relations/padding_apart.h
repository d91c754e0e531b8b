// A pad that puts other numbers of elements before or behind than the golden convolution of the same data.
#pragma once

#include <cstdint>
#include <optional>

#include "ask/relations/blame.h"
#include "ask/relations/numbers_apart.h"

namespace sonde {

// The first pad, up to operator `last` of the target, of data that a golden convolution pads otherwise. Less behind is
// right where the golden run cuts it off.
std::optional<NumberApart> padding_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                         std::uint32_t last);

}  // namespace sonde
