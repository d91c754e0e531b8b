// Ops that only a sharded run has, and that do what a sharded run needs: a difference behind them comes from elsewhere.
#pragma once

#include <cstdint>

#include "ask/unsharded/whole_step.h"

namespace sonde {

// As the loss of a micro-batch is divided by their number.
bool divides_like_micro_batches(const WholeStep& step, std::size_t rank, std::uint32_t op);

// The collective gives the sum of what the ranks have. By statistics, the means show it.
bool adds_up_ranks(const WholeStep& step, std::size_t rank, std::uint32_t op);

// Of a difference behind the op: it moves elements, where they have another size; it adds up what the ranks have, or divides
// a gradient by their number.
bool is_innocent(const WholeStep& step, std::size_t rank, std::uint32_t op, const TensorDifference& difference);

}  // namespace sonde
