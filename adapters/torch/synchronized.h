// Synchronized<T>: data with its mutex. The data is reached through lock() only, so no code can forget the lock. It is for
// the adapters, which the compiler's check of locks does not read: it would need PyTorch's headers (ground/base/mutex.h).
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>

namespace sonde_torch {

template <typename T>
class Synchronized {
 public:
  // Has the lock for as long as it lives.
  class Access {
   public:
    T& operator*() const { return *data_; }
    T* operator->() const { return data_; }

    // Gives the lock back while it waits for `ready`, which is called with the lock.
    template <typename Ready>
    void wait(std::condition_variable& news, Ready ready) {
      // Ten years: wait_for() with it does the work of wait(), whose symbol is of GCC 12 (ground/base/clock.h).
      news.wait_for(lock_, std::chrono::hours{24 * 3652}, ready);
    }

   private:
    friend class Synchronized;
    explicit Access(Synchronized& of) : lock_(of.mutex_), data_(&of.data_) {}

    std::unique_lock<std::mutex> lock_;
    T* data_;
  };

  [[nodiscard]] Access lock() { return Access(*this); }

  // Of this moment: another thread may change it at once, unless this is the child of a fork.
  bool is_locked() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return !lock.owns_lock();
  }

  // In the child of a fork, where a thread of the parent may have had the lock. The data stays as it is.
  void unlock_in_forked_child() { new (&mutex_) std::mutex; }

 private:
  std::mutex mutex_;
  T data_{};
};

}  // namespace sonde_torch
