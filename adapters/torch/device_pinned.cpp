// Pinned memory of the host, in the sizes that a step needs again and again. A buffer belongs to the engine until its
// release; then the next copy takes it.
#include <ATen/Functions.h>

#include <array>
#include <bit>

#include "device_work.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

constexpr std::uint64_t kSmallestPinned = 512;
constexpr std::uint64_t kPinnedSlabBytes = 1 << 20;  // smaller buffers are cut from pieces of this size

struct PinnedBuffer {
  at::Tensor memory;  // bytes; of a slab: the whole of it
  std::uint64_t offset = 0;
  std::size_t size_class = 0;
};

// A quarter of a power of two each, so that at most a quarter is wasted.
std::uint64_t class_bytes(std::uint64_t bytes) {
  if (bytes <= kSmallestPinned) return kSmallestPinned;
  const std::uint64_t quarter = std::bit_floor(bytes - 1) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}
std::size_t class_of(std::uint64_t rounded) {
  const auto power = static_cast<std::size_t>(std::bit_width(rounded - 1)) - 1;
  return power * 4 + (rounded - 1 - (std::uint64_t{1} << power)) / ((std::uint64_t{1} << power) / 4);
}

struct PinnedPool {
  std::array<std::vector<PinnedBuffer*>, 4 * 64> free;
  at::Tensor slab;
  std::uint64_t slab_used = kPinnedSlabBytes;
};

Leaked<Synchronized<PinnedPool>> g_pinned_pool;

at::Tensor pinned_bytes(std::uint64_t bytes) {
  const OwnOperators guard;
  return at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions(at::kByte).pinned_memory(true));
}

PinnedBuffer* make_pinned(PinnedPool& pool, std::uint64_t rounded) {
  auto buffer = std::make_unique<PinnedBuffer>();
  buffer->size_class = class_of(rounded);
  if (rounded * 4 > kPinnedSlabBytes) {
    buffer->memory = pinned_bytes(rounded);
  } else {
    if (pool.slab_used + rounded > kPinnedSlabBytes) {
      pool.slab = pinned_bytes(kPinnedSlabBytes);
      pool.slab_used = 0;
    }
    buffer->memory = pool.slab;
    buffer->offset = pool.slab_used;
    pool.slab_used += rounded;
  }
  return buffer.release();
}

}  // namespace

void* take_pinned(std::uint64_t bytes, void** owner, const char** why) {
  try {
    const std::uint64_t rounded = class_bytes(bytes);
    const auto pool = g_pinned_pool->lock();
    std::vector<PinnedBuffer*>& free = pool->free.at(class_of(rounded));
    PinnedBuffer* buffer = free.empty() ? make_pinned(*pool, rounded) : free.back();
    if (!free.empty()) free.pop_back();
    *owner = buffer;
    return static_cast<char*>(buffer->memory.data_ptr()) + buffer->offset;
  } catch (...) {
    *why = "statistics only: no pinned memory";
    return nullptr;
  }
}

void give_pinned(void* owner) {
  auto* buffer = static_cast<PinnedBuffer*>(owner);
  g_pinned_pool->lock()->free.at(buffer->size_class).push_back(buffer);
}

at::Tensor pinned_tensor(void* owner, c10::IntArrayRef sizes, c10::ScalarType type) {
  const auto* buffer = static_cast<const PinnedBuffer*>(owner);
  const c10::TensorImpl& bytes = *buffer->memory.unsafeGetTensorImpl();
  c10::Storage storage = bytes.storage();
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, std::move(storage),
                                                               bytes.key_set(), c10::scalarTypeToTypeMeta(type));
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_storage_offset(static_cast<std::int64_t>(buffer->offset / c10::elementSize(type)));
  impl.set_sizes_contiguous(sizes);
  return tensor;
}

}  // namespace sonde_torch
