// Golden ops that the sharded run leaves out: a residual, a scale, a norm, an activation.
#pragma once

#include <optional>

#include "ask/unsharded/causes.h"

namespace sonde {

// Of the golden ops without a counterpart that lead to the input, which differs: the first one, if the ranks read here
// what it reads.
std::optional<ShardCause> left_out_before(const WholeStep& step, std::uint32_t golden, const CompareInput& input,
                                          const Joined& joined);

// `cause` is an op that may be another way to compute what the golden run does: the golden op before it, without a
// counterpart, that puts together what that op is computed from and a result that the rank does not read here.
std::optional<ShardCause> left_out_beside(const WholeStep& step, const ShardCause& cause);

// Gradients differ by a factor as `cause` shows: the golden op that divides or multiplies the loss, which no rank has.
std::optional<ShardCause> scale_of_loss_left_out(const WholeStep& step, const ShardCause& cause);

}  // namespace sonde
