#include "record/capture/modes/snapshot.h"

#include <utility>

namespace sonde {

Snapshot take_snapshot(const HostTensor& tensor, const TensorKey& key, BlockPtr image) {
  const TensorView& view = tensor.view;
  Snapshot snapshot;
  snapshot.shape = Dims(view.shape);
  if (key.dense) {
    tensor.access->copy_block(view.data, view.bytes(), image->data);
    snapshot.strides = Dims(view.strides);
    snapshot.conjugate = view.conjugate;
    snapshot.negative = view.negative;
  } else {
    tensor.access->copy_c_order(view, image->data);
    snapshot.strides = c_order_strides(view.shape);
  }
  snapshot.image = std::move(image);
  return snapshot;
}

HostTensor Snapshot::tensor(const TensorRecord& record) const {
  HostTensor tensor;
  tensor.view.dtype = record.dtype;
  tensor.view.conjugate = conjugate;
  tensor.view.negative = negative;
  tensor.view.data = image->data;
  tensor.view.shape = shape.values();
  tensor.view.strides = strides.values();
  tensor.access = &host_access();
  return tensor;
}

}  // namespace sonde
