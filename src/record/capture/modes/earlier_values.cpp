#include "record/capture/modes/earlier_values.h"

#include <utility>

namespace sonde {

EarlierValues::EarlierValues(OpTensors& tensors)
    : tensors_(tensors),
      needs_image_(tensors.rules().needs_bytes || tensors.rules().hashes || tensors.rules().reshapes) {}

void EarlierValues::add(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  const bool on_device = tensor.handle != nullptr;  // its bytes are read in any case, and dropped if nothing is found
  if (!on_device && needs_image_) return add_image(op, slot, tensor);
  tensors_.add(op, true, slot, tensor, true);
  if (!tensors_.reads() || op.record.tensors.back().skipped != nullptr) return;
  op.before.emplace_back().index = op.record.tensors.size() - 1;
}

void EarlierValues::add_image(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  if (!tensors_.add_unread_input(op, slot, tensor)) return;
  BlockPtr image = recorder_->blocks().take(tensor.view.bytes());
  if (image == nullptr) {
    op.record.tensors.back().skipped = "no memory for its value before the operator";
    return;
  }
  Snapshot& snapshot = op.before.emplace_back(take_snapshot(tensor, key_of(tensor), std::move(image)));
  snapshot.index = op.record.tensors.size() - 1;
}

void EarlierValues::settle(Op& op, bool kept) {
  for (const Snapshot& snapshot : op.before) {
    TensorRecord& record = op.record.tensors[snapshot.index];
    record.wanted = kept;
    if (!kept) record.bytes.reset();
    if (!kept || snapshot.image == nullptr) continue;
    const HostTensor before = snapshot.tensor(record);
    tensors_.read(before, key_of(before), record);
  }
  op.before.clear();
}

}  // namespace sonde
