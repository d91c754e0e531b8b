// Operators on wrappers of tensors (DTensor, functorch, torchao's): they compute nothing themselves, so the operators that
// they call are recorded in their place.
#pragma once

#include "place.h"

namespace sonde_torch {

// The place of the operator `fn` that starts now with these arguments, and, in `frame`, whether it is a group.
Place place_in_group(ThreadState& state, Frame& frame, const at::RecordFunction& fn,
                     c10::ArrayRef<const c10::IValue> values);

// How an argument of the operator that starts now is part of a DTensor, as the operator around it has it among its own.
// Null: it is not a part.
const Layout* placement_in_group(ThreadState& state, const at::TensorBase& tensor);

// The group whose operators run on this thread; null: none.
const Group* group_around(const ThreadState& state);

}  // namespace sonde_torch
