// Block: bytes of one tensor on their way to the disk. BlockPool: allocates blocks and limits their memory to a budget.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace sonde {

class BlockPool;

// Room for the file's header before the bytes: a direct write needs header and bytes in one piece that begins at a
// page. 128 bytes are the npy header of nearly every tensor.
inline constexpr std::size_t kHeadroom = 128;

struct Block {
  std::byte* data = nullptr;
  std::byte* page = nullptr;               // large blocks: kHeadroom bytes before `data`, where a page begins
  std::size_t bytes = 0;                   // requested
  std::size_t capacity = 0;                // available from `data` on, which is 64-byte aligned
  bool with_writer = false;                // the recorder has it and will return it without the host's help
  Block* next = nullptr;                   // the pool's list of free blocks
  void (*release)(void* owner) = nullptr;  // memory of somebody else, who gets it back so
  void* owner = nullptr;

  std::atomic<std::uint32_t> owners{1};  // the pointers to it; see share()
};

struct ReturnBlock {
  BlockPool* pool = nullptr;
  void operator()(Block* block) const;
};
using BlockPtr = std::unique_ptr<Block, ReturnBlock>;

// Memory is used again, since fresh pages cost more than the copy itself. Safe from any thread. The pool outlives its
// blocks.
class BlockPool {
 public:
  // `before_waiting` is called before take() waits: the writer may be gathering work.
  explicit BlockPool(
      std::uint64_t budget_bytes, std::function<void()> before_waiting = [] {});
  ~BlockPool();

  // Waits until the budget has room. Returns at once, beyond the budget, if waiting cannot help: if the writer holds no
  // block (all of them are in records that are still being made), or if the tensor is larger than the whole budget and
  // alone. Null if the pool is closed or the system has no memory.
  BlockPtr take(std::size_t bytes);
  // Null if there is no space now, or no memory.
  BlockPtr try_take(std::size_t bytes);
  // Memory of somebody else, within the budget: wait_for_room() comes first. `release` may be called on any thread.
  BlockPtr adopt(std::byte* data, std::size_t bytes, void (*release)(void* owner), void* owner);
  // Whether the budget has room for a block; the second one waits for it as take() does, and is false if the pool is
  // closed.
  bool has_room(std::size_t bytes) const;
  bool wait_for_room(std::size_t bytes);
  // Another pointer to a block whose bytes do not change any more: it is free again when both are gone.
  static BlockPtr share(const BlockPtr& block);
  // The recorder reports that `block` is on its way to the disk.
  void hand_to_writer(Block& block);

  bool is_crowded() const;                // more than half of the budget is in use: the writer does not keep up
  std::uint64_t in_flight_bytes() const;  // capacity of all blocks in use
  std::uint64_t mapped_bytes() const;     // taken from the system in large pieces, free or in use
  std::uint64_t waited_us() const;        // the time that take() blocked the host
  void close();                           // take() no longer waits, returns null: the writer is gone
  void abandon();                         // after fork, in the child: null from now on, no lock is taken

 private:
  friend struct ReturnBlock;
  struct State;
  void give(Block* block);
  std::unique_ptr<State> state_;
};

}  // namespace sonde
