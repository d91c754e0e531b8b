// Block: bytes of one tensor on their way to the disk. BlockPool: where they come from, and the budget they count against.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace sonde {

class BlockPool;

struct Block {
  std::byte* data = nullptr;
  std::size_t bytes = 0;      // asked for
  std::size_t capacity = 0;   // taken from the pool
};

struct ReturnBlock {
  BlockPool* pool = nullptr;
  void operator()(Block* block) const;
};
using BlockPtr = std::unique_ptr<Block, ReturnBlock>;

// Memory is reused by size class, since fresh pages cost more than the copy itself. Any thread.
class BlockPool {
 public:
  explicit BlockPool(std::uint64_t budget_bytes);
  ~BlockPool();

  // Waits until the budget has room (a tensor larger than the whole budget is let through alone).
  BlockPtr take(std::size_t bytes);
  // Null when there is no room now, or no memory.
  BlockPtr try_take(std::size_t bytes);

  std::uint64_t in_flight_bytes() const;
  std::uint64_t waited_us() const;          // how long take() held the host up
  void close();                             // take() no longer waits, returns null: the writer is gone

 private:
  friend struct ReturnBlock;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sonde
