// Dumps whose operators have no inputs, as a folder of files: what follows from what is not known.
#pragma once

#include <optional>

#include "ask/relations/blame.h"

namespace sonde {

bool has_inputs(const Pool& pool);
// Else they follow from values: a tensor without readers need not be a result.
bool knows_edges(const Pool& pool);
bool last_result_fits(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

// One of the two has no inputs, so that regions between what corresponds and what does not are not known, and the last
// results differ: the operator in whose result the order of the files shows it first. `nothing_compared` is set if the
// golden run has no result that could be the last one.
std::optional<Culprit> other_end_without_inputs(const Pool& target, const Pool& golden, RelationJudgement& judgement);

}  // namespace sonde
