// The statistics of a tensor that several ranks, or calls, have in parts: sums and counts of parts add up, extremes are
// the extreme ones. Of parts of a sum only the mean is known.
#pragma once

#include "ask/unsharded/joined_tensor.h"

namespace sonde {

// As join(), for tensors of which one side has no values.
Joined join_statistics(const TensorParts& parts, const TensorParts& golden, const JoinLimits& limits);

}  // namespace sonde
