// Queue: many threads push, one thread takes all items.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

#include "ground/base/clock.h"
#include "ground/base/mutex.h"

namespace sonde {

template <typename Item>
class Queue {
 public:
  // Waits while there are `most` items. This is safe only if the reader keeps taking.
  void push(Item&& item, std::size_t most = kNever) {
    Lock lock(mutex_);
    while (size() >= most) taken_.wait_for(mutex_, kForever);
    const bool wakes = append(std::move(item));
    lock.unlock();
    if (wakes) filled_.notify_one();
  }

  // Returns false, and leaves `item` unchanged, if there are `most` items.
  bool try_push(Item&& item, std::size_t most) {
    Lock lock(mutex_);
    if (size() >= most) return false;
    const bool wakes = append(std::move(item));
    lock.unlock();
    if (wakes) filled_.notify_one();
    return true;
  }

  // `joins(last item)` may take what is pushed into that item, and returns whether it did; it counts as one more item.
  // Returns false if it did not, or if there are `most` items.
  template <typename Joins>
  bool join(Joins joins, std::size_t most) {
    Lock lock(mutex_);
    if (items_.empty() || size() >= most || !joins(items_.back())) return false;
    ++joined_;
    const bool wakes = has_enough();
    lock.unlock();
    if (wakes) filled_.notify_one();
    return true;
  }

  // Replaces `out`, whose memory is used again, by all items in the order in which they were pushed. Waits for one
  // item, for wake(), or for `at_most`. If it had to wait, it waits a little longer for further items: waking this
  // thread costs the pushing thread more than the push itself. After items more are expected soon: it looks by itself.
  void take_all(std::vector<Item>& out, std::chrono::milliseconds at_most) {
    const bool more_soon = !out.empty();
    out.clear();
    Lock lock(mutex_);
    if (items_.empty() && !woken_) {
      if (more_soon) {
        const std::chrono::milliseconds first = std::min(kGathers, at_most);
        wait(kManyItems, first);
        at_most -= first;
      }
      if (items_.empty() && !woken_) {
        wait(1, at_most);
        if (!items_.empty() && !woken_) wait(kManyItems, kGathers);
      }
    }
    woken_ = false;
    std::swap(out, items_);
    joined_ = 0;
    lock.unlock();
    taken_.notify_all();
  }

  void wake() {
    {
      const Lock lock(mutex_);
      woken_ = true;
    }
    filled_.notify_one();
  }

 private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kManyItems = 256;
  static constexpr std::chrono::milliseconds kGathers{10};

  // Both return whether the reader must be woken: it waits for so many items.
  bool append(Item&& item) REQUIRES(mutex_) {
    items_.push_back(std::move(item));
    return has_enough();
  }
  bool has_enough() REQUIRES(mutex_) {
    if (size() < wake_at_) return false;
    wake_at_ = kNever;
    return true;
  }

  std::size_t size() const REQUIRES(mutex_) { return items_.size() + joined_; }

  void wait(std::size_t items, std::chrono::milliseconds at_most) REQUIRES(mutex_) {
    wake_at_ = items;
    const auto end = std::chrono::steady_clock::now() + at_most;
    while (size() < items && !woken_ && filled_.wait_until(mutex_, end)) {
    }
    wake_at_ = kNever;
  }

  Mutex mutex_;
  ConditionVariable filled_, taken_;
  std::vector<Item> items_ GUARDED_BY_MUTEX;
  std::size_t joined_ GUARDED_BY_MUTEX = 0;        // what was taken into an item
  std::size_t wake_at_ GUARDED_BY_MUTEX = kNever;  // so that a push without a waiting reader needs no system call
  bool woken_ GUARDED_BY_MUTEX = false;
};

}  // namespace sonde
