#include "record/capture/content_cache.h"

#include <algorithm>
#include <utility>

#include "ground/tensor/walk.h"

namespace sonde {

Content content_of(const TensorRecord& record) {
  Content content;
  content.id = record.content;
  content.has_statistics = record.has_statistics;
  content.statistics = record.statistics;
  content.md5 = record.md5;
  content.sha1 = record.sha1;
  content.hashes = record.hashes;
  content.late = record.late;
  return content;
}

void give_content(const Content& content, TensorRecord& record) {
  record.content = content.id;
  record.has_statistics = content.has_statistics;
  record.statistics = content.statistics;
  record.md5 = content.md5;
  record.sha1 = content.sha1;
  record.hashes = content.hashes;
  record.late = content.late;
}

TensorView TensorKey::view() const {
  TensorView out;
  out.data = static_cast<const std::byte*>(data);
  out.dtype = dtype;
  out.shape = shape;
  out.strides = strides;
  return out;
}

// For two views of the same first element and type.
bool ContentCache::have_same_elements(const Entry& entry, const TensorKey& key) {
  const auto walk_of = [&](std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
    TensorView view = key.view();
    view.shape = shape;
    view.strides = strides;
    return Walk(view, WalkOrder::memory);
  };
  return walk_of(entry.shape.values(), entry.strides.values()) == walk_of(key.shape, key.strides);
}

void ContentCache::Storage::forget_contents() {
  entries.clear();
  finite.clear();
}

// Keeps the memory of its lists, unless they have grown.
void ContentCache::Storage::recycle() {
  constexpr std::size_t kUsual = 32;
  known.clear();
  forget_contents();
  if (known.capacity() > kUsual) known.shrink_to_fit();
  if (entries.capacity() > kUsual) entries.shrink_to_fit();
  if (finite.capacity() > kUsual) finite.shrink_to_fit();
  fresh.end();
  written = false;
  writer = before = {};
  touched = epoch = 0;
}

// Knowledge from earlier steps goes when the storage is needed again, so that the end of a step need not look at all.
void ContentCache::touch(Storage& storage) const {
  if (storage.touched == step_) return;
  if (storage.touched + kStepsKept < step_) storage.forget_contents();
  storage.known.clear();
  storage.touched = step_;
}

ContentCache::Storage& ContentCache::storage_of(std::uint64_t storage_id) {
  const auto [storage, fresh] = storages_.obtain(storage_id);
  if (fresh) {
    storage->epoch = epoch_of_others_;
    storage->touched = step_;
  }
  touch(*storage);
  return *storage;
}

std::uint64_t ContentCache::epoch_of(std::uint64_t storage_id) const {
  const Storage* storage = storages_.find(storage_id);
  return storage != nullptr ? storage->epoch : epoch_of_others_;
}

ContentCache::Found ContentCache::find(const TensorKey& key) {
  Found found;
  if (key.storage == 0) return found;
  found.epoch = epoch_of_others_;
  Storage* known = storages_.find(key.storage);
  if (known == nullptr) return found;
  Storage& storage = *known;
  touch(storage);
  found.epoch = storage.epoch;
  found.uninitialised = storage.fresh.any() && storage.fresh.holds(key.view());
  for (const Entry& entry : storage.entries) {
    if (entry.data != key.data || entry.dtype != key.dtype || entry.bytes != key.bytes) continue;
    const bool same_shape = std::ranges::equal(entry.shape.values(), key.shape);
    // Strides of dimensions of size 1 are noise: two C-contiguous tensors of one shape are the same.
    if (same_shape &&
        ((entry.contiguous && key.contiguous) || std::ranges::equal(entry.strides.values(), key.strides))) {
      found.same = &entry.content;
      return found;
    }
    if (have_same_elements(entry, key)) found.same_set = &entry.content;
  }
  return found;
}

void ContentCache::insert(const TensorKey& key, Content content, std::uint64_t epoch) {
  if (key.storage == 0 || epoch_of(key.storage) != epoch) return;
  Storage& storage = storage_of(key.storage);
  // There may be one that was recorded without its bytes.
  std::erase_if(storage.entries, [&](const Entry& entry) {
    return entry.data == key.data && entry.dtype == key.dtype && std::ranges::equal(entry.shape.values(), key.shape) &&
           std::ranges::equal(entry.strides.values(), key.strides);
  });
  storage.entries.push_back(
      {key.data, key.dtype, key.contiguous, key.bytes, Dims(key.shape), Dims(key.strides), std::move(content)});
}

void ContentCache::wrote(std::uint64_t storage, std::uint64_t sequence) {
  if (storage != 0) note_write(storage, sequence).fresh.end();
}

void ContentCache::wrote(std::uint64_t storage_id, const TensorKey& part, std::uint64_t sequence) {
  if (storage_id == 0) return;
  Storage& storage = note_write(storage_id, sequence);
  if (storage.fresh.any()) storage.fresh.wrote(part.view());
}

ContentCache::Storage& ContentCache::note_write(std::uint64_t storage_id, std::uint64_t sequence) {
  Storage& storage = storage_of(storage_id);
  storage.epoch = ++writes_;
  storage.written = true;
  if (storage.writer.sequence != sequence)
    storage.before = storage.known.empty() ? storage.writer : storage.known.back().origin;
  storage.writer = {sequence, kInnerSlot};  // until made() sets the output
  storage.known.clear();
  storage.forget_contents();
  return storage;
}

bool ContentCache::knows_contents(std::uint64_t storage_id) const {
  const Storage* storage = storages_.find(storage_id);
  return storage != nullptr && (storage->fresh.any() || !storage->entries.empty());
}

bool ContentCache::is_written(std::uint64_t storage_id) const {
  const Storage* storage = storages_.find(storage_id);
  return storage != nullptr && storage->written;
}

bool ContentCache::known_finite(std::uint64_t storage_id, const void* data, std::uint64_t bytes) const {
  const Storage* storage = storages_.find(storage_id);
  if (storage_id == 0 || storage == nullptr || storage->touched + kStepsKept < step_) return false;
  const auto* begin = static_cast<const std::byte*>(data);
  return std::ranges::any_of(
      storage->finite, [&](const Extent& extent) { return extent.begin <= begin && begin + bytes <= extent.end; });
}

void ContentCache::set_finite(std::uint64_t storage_id, const void* data, std::uint64_t bytes, std::uint64_t epoch) {
  if (storage_id == 0 || epoch_of(storage_id) != epoch) return;
  constexpr std::size_t kMostExtents = 64;
  std::pmr::vector<Extent>& finite = storage_of(storage_id).finite;
  if (finite.size() == kMostExtents) finite.erase(finite.begin());
  const auto* begin = static_cast<const std::byte*>(data);
  finite.push_back({begin, begin + bytes});
}

void ContentCache::allocated(std::uint64_t storage_id, const std::byte* block, std::uint64_t bytes,
                             std::uint64_t kept) {
  if (storage_id == 0 || (kept >= bytes && bytes > 0)) return;
  Storage& storage = storage_of(storage_id);
  storage.fresh.begin(block, bytes, kept);
  storage.epoch = ++writes_;
  storage.forget_contents();
}

bool ContentCache::is_unwritten(std::uint64_t storage_id, const TensorKey& key) const {
  const Storage* storage = storages_.find(storage_id);
  return storage_id != 0 && storage != nullptr && storage->fresh.any() && storage->fresh.holds(key.view());
}

void ContentCache::remember(std::pmr::vector<Known>& known, const ViewIdentity& view, Origin origin) {
  std::erase_if(known, [&](const Known& one) { return one.object == view.object && one.object != 0; });
  if (known.size() == kMostKnown) known.erase(known.begin(), known.begin() + kMostKnown / 2);
  known.push_back({view.object, view.geometry, origin});
}

Origin ContentCache::origin_of(const ViewIdentity& view, std::uint64_t reader) {
  if (view.storage == 0) {
    const auto it = without_storage_.find(view.object);
    const bool same = it != without_storage_.end() && it->second.geometry == view.geometry;
    return same ? it->second.origin : Origin();
  }
  Storage& storage = storage_of(view.storage);
  if (reader != kNoSequence && storage.writer.sequence == reader) return storage.before;
  const Known* found = nullptr;
  for (const Known& one : storage.known) {
    if (one.geometry != view.geometry) continue;
    found = &one;
    if (one.object == view.object && view.object != 0) return one.origin;
  }
  const Origin origin = found != nullptr ? found->origin : storage.writer;
  // So that a later view with the same layout is not mistaken for it.
  if (view.object != 0) remember(storage.known, view, origin);
  return origin;
}

void ContentCache::made(const ViewIdentity& view, Origin origin) {
  if (view.storage == 0) {
    if (view.object != 0) without_storage_[view.object] = {view.object, view.geometry, origin};
    return;
  }
  Storage& storage = storage_of(view.storage);
  if (storage.writer.sequence == origin.sequence) storage.writer.slot = origin.slot;
  remember(storage.known, view, origin);
}

void ContentCache::end_step() {
  ++step_;
  without_storage_.clear();
  if (step_ % kStepsBetweenSearches != 0) return;
  const auto is_old = [&](const Storage& storage) { return storage.touched + kStepsKept < step_; };
  storages_.for_each([&](std::uint64_t, Storage& storage) {
    if (is_old(storage)) storage.forget_contents();
  });
  const std::size_t forgotten = storages_.erase_if(
      [&](const Storage& storage) { return !storage.written && !storage.fresh.any() && is_old(storage); });
  if (forgotten > 0) epoch_of_others_ = ++writes_;
}

void ContentCache::forget_contents() {
  epoch_of_others_ = ++writes_;
  storages_.for_each([&](std::uint64_t, Storage& storage) {
    storage.epoch = writes_;
    storage.forget_contents();
  });
}

void ContentCache::clear() {
  storages_.clear();
  without_storage_.clear();
  epoch_of_others_ = ++writes_;
}

void ContentCache::release() {
  clear();
  storages_.release();
}

}  // namespace sonde
