// Activation checkpointing on one side: the ops that run again before the backward pass belong to the golden ones that
// ran once.
#pragma once

#include "ask/compare/op_pairs.h"

namespace sonde {

// By op of the side: the op of the forward pass that it runs again; kNoOp: none.
Group originals_of(const CompareSide& side);

}  // namespace sonde
