#include "capture/identity.h"

#include <algorithm>
#include <utility>

namespace sonde {

Identity::Found Identity::find(const TensorKey& key) {
  Found found;
  if (key.storage == 0) return found;
  const auto it = storages_.find(key.storage);
  if (it == storages_.end()) return found;
  Storage& storage = it->second;
  storage.touched = step_;
  found.uninitialised = storage.uninitialised;
  found.written = storage.written;
  found.source = storage.source;
  found.source_slot = storage.source_slot;
  for (const Entry& entry : storage.entries) {
    if (entry.data != key.data || entry.dtype != key.dtype || entry.bytes != key.bytes) continue;
    const bool same_shape = std::ranges::equal(entry.shape.values(), key.shape);
    // Strides of dimensions of size 1 are noise: two C-contiguous tensors of one shape are the same.
    if (same_shape &&
        ((entry.contiguous && key.contiguous) || std::ranges::equal(entry.strides.values(), key.strides))) {
      found.same = &entry.content;
      return found;
    }
    if (entry.dense && key.dense) found.same_set = &entry.content;
  }
  return found;
}

void Identity::insert(const TensorKey& key, Content content) {
  if (key.storage == 0) return;
  Storage& storage = storages_[key.storage];
  storage.touched = step_;
  // One that was recorded without its bytes may be there.
  std::erase_if(storage.entries, [&](const Entry& entry) {
    return entry.data == key.data && entry.dtype == key.dtype && std::ranges::equal(entry.shape.values(), key.shape) &&
           std::ranges::equal(entry.strides.values(), key.strides);
  });
  storage.entries.push_back({key.data, key.dtype, key.dense, key.contiguous, key.bytes, Dims(key.shape),
                             Dims(key.strides), std::move(content)});
}

void Identity::wrote(std::uint64_t storage_id, std::uint64_t sequence) {
  if (storage_id == 0) return;
  Storage& storage = storages_[storage_id];
  storage.touched = step_;
  storage.uninitialised = false;
  storage.written = true;
  storage.source = sequence;
  storage.source_slot = 0;
  storage.entries.clear();
}

void Identity::uninitialised(std::uint64_t storage_id) {
  if (storage_id != 0) storages_[storage_id].uninitialised = true;
}

void Identity::wrote_slot(std::uint64_t storage_id, std::uint64_t sequence, std::uint32_t slot) {
  const auto it = storages_.find(storage_id);
  if (it != storages_.end() && it->second.source == sequence) it->second.source_slot = slot;
}

void Identity::end_step() {
  ++step_;
  std::erase_if(storages_, [&](const auto& item) { return item.second.touched + 2 < step_; });
}

}  // namespace sonde
