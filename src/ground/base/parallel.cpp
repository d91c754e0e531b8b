#include "ground/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace sonde {
namespace {

std::size_t available_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    if (const int cpus = CPU_COUNT(&set); cpus > 0) return static_cast<std::size_t>(cpus);
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

Threads::Threads(std::size_t count) : count_(count != 0 ? count : available_cpus()) {}

void Threads::for_each(std::size_t parts, const std::function<void(std::size_t)>& body) const {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed_part = std::numeric_limits<std::size_t>::max();
  const auto work = [&] {
    for (std::size_t part = next++; part < parts; part = next++) {
      try {
        body(part);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (part < failed_part) {
          failed_part = part;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min(count_, parts); ++i) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {  // no more to be had: those that run do it all
      break;
    }
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

std::function<void(std::size_t, const std::function<void(std::size_t)>&)> Threads::runner() const {
  return [this](std::size_t parts, const std::function<void(std::size_t)>& body) { for_each(parts, body); };
}

}  // namespace sonde
