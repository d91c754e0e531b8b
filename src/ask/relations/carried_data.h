// Data that an operator leaves to others: in a buffer, or to a later step. A program that calls its modules one by one
// has a step for each.
#pragma once

#include "ask/relations/pool.h"

namespace sonde {

// What a step carried over from an earlier one becomes the result of the operator that made it there, as its numbers
// show. The pool was read.
void join_carried_data(Pool& pool);

// A buffer into which a result was copied is no tensor of its own if it only pads that.
void drop_padded_buffers(Pool& pool);

}  // namespace sonde
