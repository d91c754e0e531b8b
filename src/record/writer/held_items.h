// HeldItems: what a recorder gets before it is certain that there will be a dump. It is kept in order, until it is handed on
// or discarded.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "ground/base/mutex.h"
#include "record/writer/item.h"

namespace sonde {

class HeldItems {
 public:
  void hold() { holds_ = true; }
  bool is_holding() const { return holds_.load(std::memory_order_acquire); }
  std::uint64_t bytes() const;  // of the tensors' values

  // False: nothing is held, and the item is as it was. Otherwise it is handed on later or never.
  bool take(Item& item);
  void discard();

  // Ends the holding unless `prepare`, called first, fails. Other threads wait meanwhile, so their items come after the
  // definitions that they refer to.
  template <typename Prepare, typename HandOn>
  Status release(Prepare prepare, HandOn hand_on) {
    const Lock lock(mutex_);
    if (!holds_ || discarded_) return {};
    if (Status done = prepare(); !done) return done;
    for (Item& item : items_) hand_on(std::move(item));
    std::vector<Item>().swap(items_);
    holds_.store(false, std::memory_order_release);
    return {};
  }

 private:
  std::atomic<bool> holds_{false};
  mutable Mutex mutex_;
  std::vector<Item> items_ GUARDED_BY_MUTEX;
  std::uint64_t bytes_ GUARDED_BY_MUTEX = 0;
  bool discarded_ GUARDED_BY_MUTEX = false;
};

}  // namespace sonde
