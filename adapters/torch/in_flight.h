// InFlight: work on its way from devices, in parts. A part has a `stream` and an event `done`: the work before it has ended
// when `done.query()` is true, or after `done.synchronize()`. Both throw if the device has failed.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "synchronized.h"

namespace sonde_torch {

template <typename Part>
class InFlight {
 public:
  // Parts of one stream are added in the order of the stream.
  void add(Part&& part) {
    const auto parts = parts_.lock();
    parts->push_back(std::make_shared<Part>(std::move(part)));
    count_ = parts->size();
  }

  bool is_locked() { return parts_.is_locked(); }
  bool is_empty() const { return count_.load(std::memory_order_relaxed) == 0; }

  // Calls hand_over(part, lost) for the parts that have ended, without the lock. `lost`: the device has failed.
  template <typename HandOver>
  void poll(HandOver hand_over) {
    if (is_empty()) return;
    std::vector<std::pair<std::shared_ptr<Part>, bool>> ended;
    {
      const auto parts = parts_.lock();
      take_ended(*parts, ended);
      handing_over_.fetch_add(1);
    }
    for (const auto& [part, lost] : ended) hand_over(*part, lost);
    handing_over_.fetch_sub(1);
  }

  // Waits for all parts, and for the other threads that hand some over.
  template <typename HandOver>
  void drain(HandOver hand_over) {
    const Parts waiting = *parts_.lock();
    // Without the lock: other threads may need it to finish an operator. Meanwhile they still find the parts.
    for (const auto& part : waiting) {
      try {
        part->done.synchronize();
      } catch (...) {  // poll() finds out
      }
    }
    poll(hand_over);
    while (handing_over_.load() > 0) std::this_thread::yield();
  }

 private:
  using Parts = std::deque<std::shared_ptr<Part>>;

  // A stream ends its work in order: behind a part that goes on, nothing of it is asked.
  void take_ended(Parts& parts, std::vector<std::pair<std::shared_ptr<Part>, bool>>& ended) {
    std::vector<decltype(Part::stream)> busy;
    std::erase_if(parts, [&](const std::shared_ptr<Part>& part) {
      if (std::ranges::find(busy, part->stream) != busy.end()) return false;
      bool ends = true, lost = false;
      try {
        ends = part->done.query();
      } catch (...) {
        lost = true;
      }
      if (ends) ended.emplace_back(part, lost);
      if (!ends) busy.push_back(part->stream);
      return ends;
    });
    count_ = parts.size();
  }

  Synchronized<Parts> parts_;
  std::atomic<std::size_t> count_{0};
  std::atomic<int> handing_over_{0};  // threads that have taken ended parts
};

}  // namespace sonde_torch
