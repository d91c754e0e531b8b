// Events: what has changed, for pages that follow.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "face/report/json.h"
#include "ground/base/mutex.h"

namespace sonde::server {

class Events {
 public:
  void add(std::string_view kind, const Json& data) {
    const Lock lock(mutex_);
    const std::string text = text_of_json(data);
    ++last_;
    events_.emplace_back(last_,
                         "id: " + std::to_string(last_) + "\nevent: " + std::string(kind) + "\ndata: " + text + "\n\n");
    if (events_.size() > kKept) events_.pop_front();
  }

  std::uint64_t last() const {
    const Lock lock(mutex_);
    return last_;
  }

  // The text of a stream: all events after `after` that are still kept; `last` gets the number of the newest.
  std::string after(std::uint64_t after, std::uint64_t& last) const {
    const Lock lock(mutex_);
    last = last_;
    std::string text;
    for (const auto& [number, event] : events_) {
      if (number > after) text += event;
    }
    return text;
  }

 private:
  static constexpr std::size_t kKept = 1000;
  mutable Mutex mutex_;
  std::deque<std::pair<std::uint64_t, std::string>> events_ GUARDED_BY_MUTEX;
  std::uint64_t last_ GUARDED_BY_MUTEX = 0;
};

}  // namespace sonde::server
