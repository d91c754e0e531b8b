// Snapshot: the earlier value of an argument that the op writes. It is kept or discarded after the op has run.
#pragma once

#include <cstddef>

#include "dump/journal/block.h"
#include "dump/journal/record.h"
#include "record/capture/host_tensor.h"

namespace sonde {

struct Snapshot {
  std::size_t index = 0;  // of its record among the op's
  BlockPtr image;         // its bytes; null if the plan needs statistics only: the record has them
  Dims shape, strides;    // of the image
  bool conjugate = false, negative = false;

  // The value before, of the type of `record`. Borrows the image.
  HostTensor tensor(const TensorRecord& record) const;
};

// Copies `tensor` into `image`; a dense tensor in its memory order, since the statistics of a copy in another order
// would differ in their last digit.
Snapshot take_snapshot(const HostTensor& tensor, const TensorKey& key, BlockPtr image);

}  // namespace sonde
