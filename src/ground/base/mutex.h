// Mutex, Lock and ConditionVariable: std::mutex and its companions, as the compiler checks them (thread_annotations.h).
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "ground/base/thread_annotations.h"

// What `mutex_`, the usual name, guards.
#define GUARDED_BY_MUTEX GUARDED_BY(mutex_)

namespace sonde {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

// Has the mutex for the rest of its scope, or until unlock().
class SCOPED_CAPABILITY Lock {
 public:
  explicit Lock(Mutex& mutex) ACQUIRE(mutex) : mutex_(&mutex) { mutex.lock(); }
  ~Lock() RELEASE() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void unlock() RELEASE() {
    mutex_->unlock();
    mutex_ = nullptr;
  }

 private:
  Mutex* mutex_;
};

class ConditionVariable {
 public:
  // Gives the mutex back while it waits. Returns when it was notified, or for no reason; false if the time is over.
  template <typename TimePoint>
  bool wait_until(Mutex& mutex, TimePoint end) REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, end) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  template <typename Duration>
  bool wait_for(Mutex& mutex, Duration at_most) REQUIRES(mutex) {
    return wait_until(mutex, std::chrono::steady_clock::now() + at_most);
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace sonde
