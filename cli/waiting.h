// Waiting: a line about a long work on standard error, where that is a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include "ground/base/mutex.h"

namespace sonde {

// "comparing step 3 of 8, 5 s", "reading the dump… 5 s": after a second, then each second. The destructor removes the
// line.
class Waiting {
 public:
  // `all`: the number of parts; 0: it is not known.
  explicit Waiting(std::string work, std::size_t all = 0);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // Of any thread.
  void now(std::string work, std::size_t done = 0, std::size_t all = 0);
  void advance();

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void show() REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable woken_;
  std::string work_ GUARDED_BY_MUTEX;
  std::size_t done_ GUARDED_BY_MUTEX = 0, all_ GUARDED_BY_MUTEX;
  bool is_over_ GUARDED_BY_MUTEX = false, is_shown_ GUARDED_BY_MUTEX = false;
  Clock::time_point began_ = Clock::now();
  std::thread thread_;  // none where there is no terminal
};

}  // namespace sonde
