// The whole tensors that several golden ranks may have parts of.
#pragma once

#include <vector>

#include "ask/unsharded/tensor_blocks.h"

namespace sonde {

// As the placements of the parts say; else each way to join them, without those that the target has too few elements for.
std::vector<TensorBlock> wholes_of(const TensorBlocks& golden, const TensorParts& parts, const TensorBlocks& target);

}  // namespace sonde
