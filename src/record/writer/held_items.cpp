#include "record/writer/held_items.h"

#include <variant>

namespace sonde {

bool HeldItems::take(Item& item) {
  if (!is_holding()) return false;
  const Lock lock(mutex_);
  if (!holds_) return false;
  if (discarded_) return true;
  if (const auto* record = std::get_if<Record>(&item)) {
    for (const TensorRecord& tensor : record->tensors) bytes_ += tensor.bytes ? tensor.bytes->bytes : 0;
  }
  items_.push_back(std::move(item));
  return true;
}

void HeldItems::discard() {
  std::vector<Item> gone;
  const Lock lock(mutex_);
  if (!holds_) return;
  discarded_ = true;
  gone.swap(items_);
}

std::uint64_t HeldItems::bytes() const {
  const Lock lock(mutex_);
  return bytes_;
}

}  // namespace sonde
