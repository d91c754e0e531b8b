#include "record/capture/kept_outputs.h"

#include <algorithm>

namespace sonde {

void KeptOutputs::keep(const Record& record) {
  std::vector<Output>& outputs = outputs_[record.sequence];
  for (const TensorRecord& tensor : record.tensors) {
    if (!tensor.is_input) outputs.push_back({tensor, tensor.hashes, tensor.late, tensor.skipped});
  }
}

void KeptOutputs::give(std::uint64_t maker, std::uint32_t output, TensorRecord& out) const {
  const auto op = outputs_.find(maker);
  out.skipped = "its operator was not recorded";
  if (op == outputs_.end()) return;
  const auto found = std::ranges::find(op->second, output, [](const Output& one) { return one.entry.slot; });
  if (found == op->second.end()) return;
  out.entry() = found->entry;
  out.hashes = found->hashes;
  out.late = found->late;
  out.skipped = found->skipped;
}

void KeptOutputs::forget(std::span<const std::uint64_t> makers) {
  for (const std::uint64_t maker : makers) outputs_.erase(maker);
}

}  // namespace sonde
