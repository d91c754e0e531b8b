// Data in buffers and of earlier steps. A program that calls its modules one by one has a step for each.
#pragma once

#include "ask/relations/pool.h"

namespace sonde {

// Data of an earlier step become the result of the operator that made them there, as their numbers show. The pool was
// read.
void join_carried_data(Pool& pool);

// A buffer that only pads the result that was copied into it is left out: its readers read the result.
void drop_padded_buffers(Pool& pool);

}  // namespace sonde
