#include "memory.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device.h"

namespace testdev {
namespace {

struct Block {
  char* address = nullptr;  // untouchable, or of the host
  std::size_t bytes = 0;    // rounded
  std::size_t asked = 0;
  int device = 0;
  Stream* owner = nullptr;        // the stream that was current when it was allocated; null: pinned
  std::vector<Stream*> used_by;   // others
  std::vector<Position> awaited;  // once it is freed
};

std::size_t rounded(std::size_t bytes) {
  const std::size_t unit = bytes <= 4096 ? 256 : 4096;
  return std::max<std::size_t>(1, (bytes + unit - 1) / unit) * unit;
}

using Key = std::pair<Stream*, std::size_t>;  // blocks of other streams are not given out: they may be in use there

struct Cache {
  std::mutex mutex;
  std::map<Key, std::vector<Block*>> free;
  std::vector<Block*> pending;  // freed, in use by streams
  std::map<const char*, Block*> living;

  Block* take(Stream* owner, std::size_t bytes) {
    std::vector<Block*>& list = free[{owner, bytes}];
    if (list.empty()) return nullptr;
    Block* block = list.back();
    list.pop_back();
    return block;
  }

  Block* containing(const void* address) {
    auto after = living.upper_bound(static_cast<const char*>(address));
    if (after == living.begin()) return nullptr;
    Block* block = std::prev(after)->second;
    return static_cast<const char*>(address) < block->address + block->bytes ? block : nullptr;
  }
};

struct DeviceMemory : Cache {
  std::size_t next = 0;                                // offset of the first address that was never used
  std::map<std::size_t, std::vector<char*>> returned;  // addresses, by size
};

DeviceMemory& memory_of(int device) {
  static auto* all = new std::array<DeviceMemory, kDevices>;
  return all->at(static_cast<std::size_t>(device));
}

Cache& pinned_memory() {
  static auto* cache = new Cache;
  return *cache;
}

// Threads that only read the block's last contents by mistake then read NaN.
void poison(const Block& block) { std::memset(real(block.device, block.address), 0xff, block.bytes); }

void make_free(DeviceMemory& memory, Block* block) {
  if (!block->owner->is_capturing() && !device(block->device).lost) {
    try {
      block->owner->enqueue([copy = *block] { poison(copy); });
    } catch (const std::exception&) {  // its stream was destroyed: nobody gets the block
      return;
    }
  }
  memory.free[{block->owner, block->bytes}].push_back(block);
}

// Takes the blocks out of `pending` whose streams have done their work.
std::vector<Block*> take_done(Cache& cache) {
  auto ready = std::partition(cache.pending.begin(), cache.pending.end(), [](const Block* block) {
    return std::any_of(block->awaited.begin(), block->awaited.end(), [](auto& at) { return !at.is_reached(); });
  });
  std::vector<Block*> blocks(ready, cache.pending.end());
  cache.pending.erase(ready, cache.pending.end());
  return blocks;
}

void collect(DeviceMemory& memory) {
  for (Block* block : take_done(memory)) make_free(memory, block);
}

// Until its streams have done their work.
void make_pending(Cache& cache, Block* block) {
  block->awaited.clear();
  for (Stream* stream : block->used_by) block->awaited.push_back(stream->end());
  block->used_by.clear();
  cache.pending.push_back(block);
}

void return_all(int index, DeviceMemory& memory) {
  for (Block* block : memory.pending) {
    for (const Position& position : block->awaited) position.wait();
  }
  collect(memory);
  for (auto& [key, list] : memory.free) {
    for (Block* block : list) {
      block->owner->end().wait();
      counter(index, Counter::reserved_bytes) -= block->bytes;
      memory.returned[block->bytes].push_back(block->address);
      delete block;
    }
  }
  memory.free.clear();
}

Block* make_block(int index, DeviceMemory& memory, Stream& owner, std::size_t bytes) {
  const std::uint64_t limit = device(index).limit_bytes;
  if (counter(index, Counter::reserved_bytes) + bytes > limit) return_all(index, memory);
  const std::uint64_t reserved = counter(index, Counter::reserved_bytes);
  TORCH_CHECK_WITH(OutOfMemoryError, reserved + bytes <= limit, "testdev: out of memory: device ", index, " has ",
                   limit, " bytes, ", reserved, " are in use, ", bytes, " were asked for");
  auto* block = new Block{nullptr, bytes, 0, index, &owner, {}, {}};
  std::vector<char*>& returned = memory.returned[bytes];
  if (!returned.empty()) {
    block->address = returned.back();
    returned.pop_back();
  } else {
    TORCH_CHECK(memory.next + bytes <= kSpaceBytes, "testdev: no addresses left");
    block->address = device(index).untouchable + memory.next;
    memory.next += bytes;
  }
  count(index, Counter::segments);
  count(index, Counter::reserved_bytes, bytes);
  return block;
}

Block* allocate_block(std::size_t asked) {
  c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
  const int index = guard.getDevice().index();
  check_usable(index);
  DeviceMemory& memory = memory_of(index);
  Stream& owner = current_stream(index);
  const std::lock_guard lock(memory.mutex);
  collect(memory);
  const std::size_t bytes = rounded(asked);
  Block* block = memory.take(&owner, bytes);
  if (block == nullptr) block = make_block(index, memory, owner, bytes);
  block->asked = asked;
  memory.living[block->address] = block;
  count(index, Counter::allocations);
  const std::uint64_t now = counter(index, Counter::allocated_bytes) += asked;
  std::atomic<std::uint64_t>& peak = counter(index, Counter::peak_bytes);
  if (peak < now) peak = now;
  return block;
}

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  if (switches().in_fork) return;
  DeviceMemory& memory = memory_of(block->device);
  const std::lock_guard lock(memory.mutex);
  memory.living.erase(block->address);
  counter(block->device, Counter::allocated_bytes) -= block->asked;
  if (block->used_by.empty()) {
    make_free(memory, block);
    return;
  }
  make_pending(memory, block);
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::impl::VirtualGuardImpl guard(c10::DeviceType::PrivateUse1);
    if (bytes == 0) return {nullptr, nullptr, &free_block, guard.getDevice()};
    Block* block = allocate_block(bytes);
    return {block->address,
            block,
            &free_block,
            {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(block->device)}};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "testdev: the host cannot copy device memory");
  }
};

// --- pinned memory of the host: a block is free when the streams that read or write it are done, as CUDA's ------------

void collect_pinned(Cache& cache) {
  for (Block* block : take_done(cache)) {
    std::memset(block->address, 0xff, block->bytes);
    cache.free[{nullptr, block->bytes}].push_back(block);
  }
}

void free_pinned(void* context) {
  auto* block = static_cast<Block*>(context);
  if (switches().in_fork) return;
  Cache& cache = pinned_memory();
  const std::lock_guard lock(cache.mutex);
  cache.living.erase(block->address);
  make_pending(cache, block);
  collect_pinned(cache);
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t asked) override {
    if (asked == 0) return {nullptr, nullptr, &free_pinned, c10::DeviceType::CPU};
    check_usable(0);
    TORCH_CHECK(switches().has_pinned, "testdev: no pinned memory");
    Cache& cache = pinned_memory();
    const std::size_t bytes = rounded(asked);
    const std::lock_guard lock(cache.mutex);
    collect_pinned(cache);
    Block* block = cache.take(nullptr, bytes);
    if (block == nullptr) {
      void* memory = std::aligned_alloc(256, bytes);
      TORCH_CHECK(memory != nullptr, "testdev: no pinned memory");
      block = new Block{static_cast<char*>(memory), bytes, asked, 0, nullptr, {}, {}};
    }
    cache.living[block->address] = block;
    count(0, Counter::pinned_allocations);
    return {block->address, block, &free_pinned, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

void add_use(Block& block, Stream& stream) {
  if (&stream == block.owner) return;
  if (std::find(block.used_by.begin(), block.used_by.end(), &stream) == block.used_by.end()) {
    block.used_by.push_back(&stream);
  }
}

}  // namespace

c10::Allocator& device_allocator() {
  static auto* allocator = new DeviceAllocator;
  return *allocator;
}

c10::Allocator& pinned_allocator() {
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

void record_use(const c10::DataPtr& data, Stream& stream) {
  if (data.get() == nullptr || data.get_deleter() != &free_block) return;
  auto* block = static_cast<Block*>(data.get_context());
  const std::lock_guard lock(memory_of(block->device).mutex);
  add_use(*block, stream);
}

int device_of(const void* address) {
  for (int index = 0; index < kDevices; ++index) {
    const char* begin = device(index).untouchable;
    if (address >= begin && address < begin + kSpaceBytes) return index;
  }
  TORCH_CHECK(false, "testdev: not an address of a device");
}

bool is_pinned(const void* address) {
  Cache& cache = pinned_memory();
  const std::lock_guard lock(cache.mutex);
  return cache.containing(address) != nullptr;
}

void record_pinned_use(const void* address, Stream& stream) {
  Cache& cache = pinned_memory();
  const std::lock_guard lock(cache.mutex);
  if (Block* block = cache.containing(address)) add_use(*block, stream);
}

void empty_cache(int index) {
  check_usable(index);
  DeviceMemory& memory = memory_of(index);
  const std::lock_guard lock(memory.mutex);
  return_all(index, memory);
}

}  // namespace testdev
