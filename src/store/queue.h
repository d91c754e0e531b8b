// Queue: many threads push, one takes everything there is.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

namespace sonde {

template <typename Item>
class Queue {
 public:
  // Waits while there are `most` items: only a reader that keeps taking makes that safe.
  void push(Item&& item, std::size_t most = std::numeric_limits<std::size_t>::max()) {
    bool wake = false;
    {
      std::unique_lock lock(mutex_);
      if (items_.size() >= most) taken_.wait(lock, [&] { return items_.size() < most; });
      items_.push_back(std::move(item));
      wake = std::exchange(waiting_, false);
    }
    if (wake) filled_.notify_one();
  }

  // Replaces `out`, whose memory is used again, by all items in the order they were pushed. Waits
  // for one, for wake(), or for `at_most`.
  void take_all(std::vector<Item>& out, std::chrono::milliseconds at_most) {
    out.clear();
    std::unique_lock lock(mutex_);
    if (items_.empty() && !woken_) {
      waiting_ = true;
      filled_.wait_for(lock, at_most, [&] { return !items_.empty() || woken_; });
      waiting_ = false;
    }
    woken_ = false;
    std::swap(out, items_);
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
  std::mutex mutex_;
  std::condition_variable filled_, taken_;
  std::vector<Item> items_;
  bool waiting_ = false;  // so that a push with nobody waiting costs no system call
  bool woken_ = false;
};

}  // namespace sonde
