// Parts that are joined in another order than the golden run joins them: what each part is shows it, also by statistics.
#pragma once

#include <cstdint>
#include <optional>

#include "ask/relations/blame.h"

namespace sonde {

// The operator that joined the parts of the tensor, or of what it is a view of; kNoOp: none did.
std::uint32_t joiner_of(const Pool& pool, std::uint32_t tensor);

// Of a tensor of the target, or of what it is a view of: the operator that joined its parts otherwise. Nothing if a golden
// operator joins them so, too.
std::optional<Culprit> joined_otherwise(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                        std::uint32_t tensor);

}  // namespace sonde
