// Events: what has changed, for pages that follow.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "face/report/json.h"

namespace sonde::server {

class Events {
 public:
  void add(std::string_view kind, const Json& data) {
    const std::lock_guard lock(mutex_);
    const std::string text = text_of_json(data);
    ++last_;
    events_.emplace_back(last_,
                         "id: " + std::to_string(last_) + "\nevent: " + std::string(kind) + "\ndata: " + text + "\n\n");
    if (events_.size() > kKept) events_.pop_front();
  }

  std::uint64_t last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

  // The text of a stream: all events after `after` that are still kept; `last` gets the number of the newest.
  std::string after(std::uint64_t after, std::uint64_t& last) const {
    const std::lock_guard lock(mutex_);
    last = last_;
    std::string text;
    for (const auto& [number, event] : events_) {
      if (number > after) text += event;
    }
    return text;
  }

 private:
  static constexpr std::size_t kKept = 1000;
  mutable std::mutex mutex_;
  std::deque<std::pair<std::uint64_t, std::string>> events_;
  std::uint64_t last_ = 0;
};

}  // namespace sonde::server
