#include "dump/journal/block.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <utility>

#include "ground/base/clock.h"
#include "ground/base/mutex.h"

namespace sonde {
namespace {

constexpr std::size_t kSmallest = 256;
constexpr std::size_t kLarge = 56 << 10;     // larger blocks are made of whole pages of the arena
constexpr std::size_t kSlabBytes = 1 << 20;  // smaller ones are cut from slabs
constexpr std::size_t kSlabLink = 64;        // room for the link, without losing alignment
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kArenaStep = 16 << 20;  // the arena grows by this much
constexpr std::size_t kClasses = 4 * 9;       // of small blocks

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Small ones: four classes per power of two, so at most a quarter is wasted, and every training step needs the same
// sizes again. Large ones: whole pages, with room for the header.
std::size_t capacity_for(std::size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  if (bytes > kLarge) return round_up(bytes + kHeadroom, kPage) - kHeadroom;
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

// One range of addresses for the large blocks. A page is touched for the first time once in a run, whatever sizes of
// tensors it serves later: the lowest free place is taken, and free neighbours are joined.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    if (reserved_ != nullptr) ::munmap(reserved_, limit_ + kHugePage);
  }

  // Null if there is no room below `limit`, which is the same in every call.
  std::byte* take(std::size_t bytes, std::size_t limit) {
    if (!asked_) reserve(limit);
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second >= bytes) return cut(at, bytes);
    }
    return grow(bytes) ? cut(std::prev(free_.end()), bytes) : nullptr;
  }

  void give(std::byte* data, std::size_t bytes) {
    auto at = free_.emplace(static_cast<std::size_t>(data - base_), bytes).first;
    if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) return;
    const auto before = std::prev(at);
    if (before->first + before->second != at->first) return;
    before->second += at->second;
    free_.erase(at);
  }

  bool has(const std::byte* data) const { return base_ != nullptr && data >= base_ && data < base_ + usable_; }
  std::size_t usable() const { return usable_; }

 private:
  using Free = std::map<std::size_t, std::size_t>;  // offset, bytes

  // Addresses alone cost nothing, unless the user has limited them.
  void reserve(std::size_t limit) {
    asked_ = true;
    rlimit addresses{};
    if (::getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur != RLIM_INFINITY) return;
    limit = round_up(limit, kHugePage);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* pages = ::mmap(nullptr, limit + kHugePage, PROT_NONE, kFlags, -1, 0);
    if (pages == MAP_FAILED) return;
    reserved_ = pages;
    limit_ = limit;
    base_ = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(pages), kHugePage));
    ::madvise(base_, limit, MADV_HUGEPAGE);
  }

  // Afterwards the last free range has `bytes`.
  bool grow(std::size_t bytes) {
    std::size_t joined = 0;
    if (!free_.empty() && std::prev(free_.end())->first + std::prev(free_.end())->second == usable_) {
      joined = std::prev(free_.end())->second;
    }
    std::size_t more = round_up(bytes - joined, kArenaStep);
    if (usable_ + more > limit_) more = limit_ - usable_;
    if (joined + more < bytes) return false;
    if (::mprotect(base_ + usable_, more, PROT_READ | PROT_WRITE) != 0) return false;
    usable_ += more;
    give(base_ + usable_ - more, more);
    return true;
  }

  std::byte* cut(Free::iterator at, std::size_t bytes) {
    const auto [offset, size] = *at;
    free_.erase(at);
    if (size > bytes) free_.emplace(offset + bytes, size - bytes);
    return base_ + offset;
  }

  void* reserved_ = nullptr;
  std::byte* base_ = nullptr;
  std::size_t limit_ = 0, usable_ = 0;
  bool asked_ = false;
  Free free_;
};

}  // namespace

struct BlockPool::State {
  State(std::uint64_t budget_bytes, std::function<void()> call)
      : budget(budget_bytes), before_waiting(std::move(call)) {}

  const std::uint64_t budget;
  const std::function<void()> before_waiting;
  mutable Mutex mutex;
  ConditionVariable room;
  std::uint64_t in_flight GUARDED_BY(mutex) = 0;
  std::uint64_t with_writer GUARDED_BY(mutex) = 0;  // part of in_flight
  std::uint64_t mapped GUARDED_BY(mutex) = 0;       // bytes of blocks with a mapping of their own, beside the arena
  std::uint64_t waited_us GUARDED_BY(mutex) = 0;
  bool closed GUARDED_BY(mutex) = false;
  std::atomic<bool> abandoned{false};
  Arena arena GUARDED_BY(mutex);
  std::array<Block*, kClasses> free GUARDED_BY(mutex){};  // small ones
  // The newest; each slab begins with the address of the previous one.
  std::byte* slab GUARDED_BY(mutex) = nullptr;
  std::size_t slab_used GUARDED_BY(mutex) = kSlabBytes;

  bool has_room(std::size_t capacity) const REQUIRES(mutex) { return in_flight == 0 || in_flight + capacity <= budget; }
  bool may_go_on(std::size_t capacity) const REQUIRES(mutex) {
    return closed || has_room(capacity) || with_writer == 0;
  }
  // False if the pool is closed.
  bool wait(std::size_t capacity) REQUIRES(mutex);
  // Null: there is no memory.
  Block* take(std::size_t bytes, std::size_t capacity) REQUIRES(mutex);
  Block* reuse(std::size_t capacity) REQUIRES(mutex);
  Block* make(std::size_t capacity) REQUIRES(mutex);
  std::byte* cut(std::size_t capacity) REQUIRES(mutex);
  // A quarter more than the budget, for the gaps between blocks of different sizes.
  std::size_t arena_limit() const { return budget + budget / 4; }
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

Block* BlockPool::State::make(std::size_t capacity) {
  auto* block = new (std::nothrow) Block;
  if (block == nullptr) return nullptr;
  if (capacity <= kLarge) {
    block->data = cut(capacity);
  } else {
    block->page = arena.take(capacity + kHeadroom, arena_limit());
    if (block->page == nullptr) {
      block->page = map_pages(capacity + kHeadroom);
      if (block->page != nullptr) mapped += capacity + kHeadroom;
    }
    if (block->page != nullptr) block->data = block->page + kHeadroom;
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

BlockPool::~BlockPool() NO_THREAD_SAFETY_ANALYSIS {
  if (state_->abandoned.load()) {
    static_cast<void>(state_.release());  // its mutex may be locked by a thread that fork() left behind
    return;
  }
  for (std::size_t i = 0; i < kClasses; ++i) {
    while (Block* block = state_->free[i]) {
      state_->free[i] = block->next;
      delete block;
    }
  }
  while (std::byte* slab = state_->slab) {
    std::memcpy(&state_->slab, slab, sizeof state_->slab);  // the next one's address is its first bytes
    ::munmap(slab, kSlabBytes);
  }
}

Block* BlockPool::State::take(std::size_t bytes, std::size_t capacity) {
  Block* block = capacity <= kLarge ? reuse(capacity) : nullptr;
  if (block == nullptr) block = make(capacity);
  if (block == nullptr) return nullptr;
  block->bytes = bytes;
  block->with_writer = false;
  block->next = nullptr;
  block->owners.store(1, std::memory_order_relaxed);
  in_flight += capacity;
  return block;
}

bool BlockPool::State::wait(std::size_t capacity) {
  if (!may_go_on(capacity)) {
    const auto start = std::chrono::steady_clock::now();
    before_waiting();
    while (!may_go_on(capacity)) room.wait_for(mutex, kForever);
    const auto waited = std::chrono::steady_clock::now() - start;
    waited_us += static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(waited).count());
  }
  return !closed;
}

BlockPtr BlockPool::take(std::size_t bytes) {
  State& state = *state_;
  if (state.abandoned.load(std::memory_order_relaxed)) return nullptr;
  const std::size_t capacity = capacity_for(bytes);
  const Lock lock(state.mutex);
  if (!state.wait(capacity)) return nullptr;
  return BlockPtr(state.take(bytes, capacity), ReturnBlock{this});
}

bool BlockPool::has_room(std::size_t bytes) const {
  const Lock lock(state_->mutex);
  return state_->has_room(capacity_for(bytes));
}

bool BlockPool::wait_for_room(std::size_t bytes) {
  if (state_->abandoned.load(std::memory_order_relaxed)) return false;
  const Lock lock(state_->mutex);
  return state_->wait(capacity_for(bytes));
}

BlockPtr BlockPool::adopt(std::byte* data, std::size_t bytes, void (*release)(void* owner), void* owner) {
  auto* block = new Block;
  block->data = data;
  block->bytes = bytes;
  block->capacity = capacity_for(bytes);
  block->release = release;
  block->owner = owner;
  const Lock lock(state_->mutex);
  state_->in_flight += block->capacity;
  return BlockPtr(block, ReturnBlock{this});
}

BlockPtr BlockPool::try_take(std::size_t bytes) {
  State& state = *state_;
  if (state.abandoned.load(std::memory_order_relaxed)) return nullptr;
  const std::size_t capacity = capacity_for(bytes);
  const Lock lock(state.mutex);
  if (state.closed || !state.has_room(capacity)) return nullptr;
  return BlockPtr(state.take(bytes, capacity), ReturnBlock{this});
}

void BlockPool::hand_to_writer(Block& block) {
  if (state_->abandoned.load(std::memory_order_relaxed)) return;
  const Lock lock(state_->mutex);
  if (block.with_writer) return;
  block.with_writer = true;
  state_->with_writer += block.capacity;
}

BlockPtr BlockPool::share(const BlockPtr& block) {
  block->owners.fetch_add(1, std::memory_order_relaxed);
  return BlockPtr(block.get(), block.get_deleter());
}

void BlockPool::give(Block* block) {
  State& state = *state_;
  if (block->owners.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  if (state.abandoned.load(std::memory_order_relaxed)) return;
  if (block->release != nullptr) block->release(block->owner);
  std::byte* own = nullptr;  // a mapping to give back
  const std::size_t pages = block->capacity + kHeadroom;
  {
    const Lock lock(state.mutex);
    state.in_flight -= block->capacity;
    if (block->with_writer) state.with_writer -= block->capacity;
    if (block->release != nullptr) {
      // Its memory has gone back already.
    } else if (block->page == nullptr) {
      Block*& head = state.free[class_of(block->capacity)];
      block->next = head;
      head = block;
      block = nullptr;
    } else if (state.arena.has(block->page)) {
      state.arena.give(block->page, pages);
    } else {
      own = block->page;
      state.mapped -= pages;
    }
  }
  state.room.notify_all();
  if (own != nullptr) ::munmap(own, pages);
  delete block;
}

void ReturnBlock::operator()(Block* block) const { pool->give(block); }

bool BlockPool::is_crowded() const {
  const Lock lock(state_->mutex);
  return state_->in_flight > state_->budget / 2;
}

std::uint64_t BlockPool::in_flight_bytes() const {
  const Lock lock(state_->mutex);
  return state_->in_flight;
}

std::uint64_t BlockPool::mapped_bytes() const {
  const Lock lock(state_->mutex);
  return state_->mapped + state_->arena.usable();
}

std::uint64_t BlockPool::waited_us() const {
  const Lock lock(state_->mutex);
  return state_->waited_us;
}

void BlockPool::close() {
  {
    const Lock lock(state_->mutex);
    state_->closed = true;
  }
  state_->room.notify_all();
}

void BlockPool::abandon() { state_->abandoned.store(true); }

}  // namespace sonde
