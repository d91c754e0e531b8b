// Waiting: a line about a long work on standard error, where that is a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include "ground/base/mutex.h"

namespace sonde {

// "comparing… step 3 of 8, 5 s": after a second, then each second. The destructor removes the line. Nobody may print
// meanwhile.
class Waiting {
 public:
  explicit Waiting(std::string work);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // Of any thread.
  void now(std::string work);
  void at(std::size_t step, std::size_t steps);

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void show() REQUIRES(mutex_);

  Mutex mutex_;
  ConditionVariable woken_;
  std::string work_ GUARDED_BY_MUTEX;
  std::size_t step_ GUARDED_BY_MUTEX = 0, steps_ GUARDED_BY_MUTEX = 0;
  bool is_over_ GUARDED_BY_MUTEX = false, is_shown_ GUARDED_BY_MUTEX = false;
  Clock::time_point began_ = Clock::now();
  std::thread thread_;  // none where there is no terminal
};

}  // namespace sonde
