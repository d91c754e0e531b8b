// Queue: many threads push, one thread takes all items.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <mutex>
#include <vector>

#include "ground/base/clock.h"

namespace sonde {

template <typename Item>
class Queue {
 public:
  // Waits while there are `most` items. This is safe only if the reader keeps taking.
  void push(Item&& item, std::size_t most = kNever) {
    std::unique_lock lock(mutex_);
    if (size() >= most) taken_.wait_for(lock, kForever, [&] { return size() < most; });
    append(std::move(item), lock);
  }

  // Returns false, and leaves `item` unchanged, if there are `most` items.
  bool try_push(Item&& item, std::size_t most) {
    std::unique_lock lock(mutex_);
    if (size() >= most) return false;
    append(std::move(item), lock);
    return true;
  }

  // `joins(last item)` may take what is pushed into that item, and returns whether it did; it counts as one more item.
  // Returns false if it did not, or if there are `most` items.
  template <typename Joins>
  bool join(Joins joins, std::size_t most) {
    std::unique_lock lock(mutex_);
    if (items_.empty() || size() >= most || !joins(items_.back())) return false;
    ++joined_;
    wake(lock);
    return true;
  }

  // Replaces `out`, whose memory is used again, by all items in the order in which they were pushed. Waits for one
  // item, for wake(), or for `at_most`. If it had to wait, it waits a little longer for further items: waking this
  // thread costs the pushing thread more than the push itself. After items more are expected soon: it looks by itself.
  void take_all(std::vector<Item>& out, std::chrono::milliseconds at_most) {
    const bool more_soon = !out.empty();
    out.clear();
    std::unique_lock lock(mutex_);
    if (items_.empty() && !woken_) {
      if (more_soon) {
        const std::chrono::milliseconds first = std::min(kGathers, at_most);
        wait(lock, kManyItems, first);
        at_most -= first;
      }
      if (items_.empty() && !woken_) {
        wait(lock, 1, at_most);
        if (!items_.empty() && !woken_) wait(lock, kManyItems, kGathers);
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
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    filled_.notify_one();
  }

 private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kManyItems = 256;
  static constexpr std::chrono::milliseconds kGathers{10};

  void append(Item&& item, std::unique_lock<std::mutex>& lock) {
    items_.push_back(std::move(item));
    wake(lock);
  }

  // Wakes the reader if there are as many items as it waits for.
  void wake(std::unique_lock<std::mutex>& lock) {
    const bool enough = size() >= wake_at_;
    if (enough) wake_at_ = kNever;
    lock.unlock();
    if (enough) filled_.notify_one();
  }

  std::size_t size() const { return items_.size() + joined_; }

  void wait(std::unique_lock<std::mutex>& lock, std::size_t items, std::chrono::milliseconds at_most) {
    wake_at_ = items;
    filled_.wait_for(lock, at_most, [&] { return size() >= items || woken_; });
    wake_at_ = kNever;
  }

  std::mutex mutex_;
  std::condition_variable filled_, taken_;
  std::vector<Item> items_;
  std::size_t joined_ = 0;        // what was taken into an item
  std::size_t wake_at_ = kNever;  // so that a push without a waiting reader needs no system call
  bool woken_ = false;
};

}  // namespace sonde
