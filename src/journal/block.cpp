#include "journal/block.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "base/clock.h"

namespace sonde {
namespace {

constexpr std::size_t kSmallest = 256;
constexpr std::size_t kOwnMapping = 64 << 10;  // from here on a block is a mapping of its own, and can be given back
constexpr std::size_t kSlabBytes = 1 << 20;    // smaller ones are cut from slabs
constexpr std::size_t kSlabLink = 64;          // room for the link, without losing alignment
constexpr std::size_t kHeadPage = 4096;        // kHeadroom and the rest of a page, so that sizes stay whole pages
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kClasses = 4 * 64;

// Four classes per power of two: at most a quarter is wasted, and every training step needs the same sizes again.
std::size_t capacity_for(std::size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t quarter = std::bit_floor(bytes - 1) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

std::size_t class_of(std::size_t capacity) {
  if (capacity <= kSmallest) return 0;
  const auto power = static_cast<std::size_t>(std::bit_width(capacity - 1)) - 1;
  const std::size_t quarter = (std::size_t{1} << power) / 4;
  return (power - 8) * 4 + (capacity - 1 - (std::size_t{1} << power)) / quarter + 1;
}

std::byte* map_pages(std::size_t bytes) {
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  if (bytes >= kHugePage) ::madvise(pages, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(pages);
}

}  // namespace

struct BlockPool::State {
  State(std::uint64_t budget_bytes, std::function<void()> call)
      : budget(budget_bytes), before_waiting(std::move(call)) {}

  const std::uint64_t budget;
  const std::function<void()> before_waiting;
  mutable std::mutex mutex;
  std::condition_variable room;
  std::uint64_t in_flight = 0;
  std::uint64_t with_writer = 0;  // part of in_flight
  std::uint64_t mapped = 0;       // bytes of blocks with a mapping of their own, in flight or free
  std::uint64_t waited_us = 0;
  bool closed = false;
  std::atomic<bool> abandoned{false};
  std::array<Block*, kClasses> free{};
  std::byte* slab = nullptr;  // the newest; each slab begins with the address of the previous one
  std::size_t slab_used = kSlabBytes;

  bool has_room(std::size_t capacity) const { return in_flight == 0 || in_flight + capacity <= budget; }
  Block* reuse(std::size_t capacity);
  Block* make(std::size_t capacity);
  std::byte* cut(std::size_t capacity);
  void release_free(std::uint64_t bytes);
};

Block* BlockPool::State::reuse(std::size_t capacity) {
  Block*& head = free[class_of(capacity)];
  Block* block = head;
  if (block != nullptr) head = block->next;
  return block;
}

std::byte* BlockPool::State::cut(std::size_t capacity) {
  if (slab_used + capacity > kSlabBytes) {
    std::byte* fresh = map_pages(kSlabBytes);
    if (fresh == nullptr) return nullptr;
    std::memcpy(fresh, &slab, sizeof slab);
    slab = fresh;
    slab_used = kSlabLink;
  }
  std::byte* data = slab + slab_used;
  slab_used += capacity;
  return data;
}

// Free blocks of other classes must not add up: the mapped memory stays near the budget.
void BlockPool::State::release_free(std::uint64_t bytes) {
  const std::size_t first_own = class_of(kOwnMapping);
  for (std::size_t i = kClasses; i-- > first_own && mapped + bytes > budget;) {
    while (free[i] != nullptr && mapped + bytes > budget) {
      Block* block = free[i];
      free[i] = block->next;
      ::munmap(block->page, block->capacity + kHeadPage);
      mapped -= block->capacity;
      delete block;
    }
  }
}

Block* BlockPool::State::make(std::size_t capacity) {
  auto* block = new (std::nothrow) Block;
  if (block == nullptr) return nullptr;
  if (capacity < kOwnMapping) {
    block->data = cut(capacity);
  } else {
    release_free(capacity);
    block->page = map_pages(capacity + kHeadPage);
    if (block->page != nullptr) {
      block->data = block->page + kHeadroom;
      mapped += capacity;
    }
  }
  if (block->data == nullptr) {
    delete block;
    return nullptr;
  }
  block->capacity = capacity;
  return block;
}

BlockPool::BlockPool(std::uint64_t budget_bytes, std::function<void()> before_waiting)
    : state_(std::make_unique<State>(budget_bytes, std::move(before_waiting))) {}

BlockPool::~BlockPool() {
  if (state_->abandoned.load()) {
    static_cast<void>(state_.release());  // its mutex may be locked by a thread that fork() left behind
    return;
  }
  for (std::size_t i = 0; i < kClasses; ++i) {
    while (Block* block = state_->free[i]) {
      state_->free[i] = block->next;
      if (block->page != nullptr) ::munmap(block->page, block->capacity + kHeadPage);
      delete block;
    }
  }
  while (std::byte* slab = state_->slab) {
    std::memcpy(&state_->slab, slab, sizeof state_->slab);  // the next one's address is its first bytes
    ::munmap(slab, kSlabBytes);
  }
}

BlockPtr BlockPool::take_locked(std::size_t bytes, std::size_t capacity) {
  Block* block = state_->reuse(capacity);
  if (block == nullptr) block = state_->make(capacity);
  if (block == nullptr) return nullptr;
  block->bytes = bytes;
  block->with_writer = false;
  block->next = nullptr;
  state_->in_flight += capacity;
  return BlockPtr(block, ReturnBlock{this});
}

BlockPtr BlockPool::take(std::size_t bytes) {
  State& state = *state_;
  if (state.abandoned.load(std::memory_order_relaxed)) return nullptr;
  const std::size_t capacity = capacity_for(bytes);
  std::unique_lock lock(state.mutex);
  const auto may_go = [&] { return state.closed || state.has_room(capacity) || state.with_writer == 0; };
  if (!may_go()) {
    const auto start = std::chrono::steady_clock::now();
    state.before_waiting();
    state.room.wait_for(lock, kForever, may_go);
    const auto waited = std::chrono::steady_clock::now() - start;
    state.waited_us +=
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(waited).count());
  }
  if (state.closed) return nullptr;
  return take_locked(bytes, capacity);
}

BlockPtr BlockPool::try_take(std::size_t bytes) {
  State& state = *state_;
  if (state.abandoned.load(std::memory_order_relaxed)) return nullptr;
  const std::size_t capacity = capacity_for(bytes);
  const std::lock_guard lock(state.mutex);
  if (state.closed || !state.has_room(capacity)) return nullptr;
  return take_locked(bytes, capacity);
}

void BlockPool::hand_to_writer(Block& block) {
  if (state_->abandoned.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(state_->mutex);
  if (block.with_writer) return;
  block.with_writer = true;
  state_->with_writer += block.capacity;
}

void BlockPool::give(Block* block) {
  State& state = *state_;
  if (state.abandoned.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard lock(state.mutex);
    state.in_flight -= block->capacity;
    if (block->with_writer) state.with_writer -= block->capacity;
    Block*& head = state.free[class_of(block->capacity)];
    block->next = head;
    head = block;
  }
  state.room.notify_all();
}

void ReturnBlock::operator()(Block* block) const { pool->give(block); }

std::uint64_t BlockPool::in_flight_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->in_flight;
}

std::uint64_t BlockPool::mapped_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->mapped;
}

std::uint64_t BlockPool::waited_us() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waited_us;
}

void BlockPool::close() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
  }
  state_->room.notify_all();
}

void BlockPool::abandon() { state_->abandoned.store(true); }

}  // namespace sonde
