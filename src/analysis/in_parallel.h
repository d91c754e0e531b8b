// Pieces of a loop on all cores, for work that mostly waits for the kernel.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace sonde {

// Calls `work(begin, end)` for pieces of 0 … count-1, each of at least `smallest`. It must not throw.
template <typename Work>
void in_parallel(std::size_t count, std::size_t smallest, const Work& work) {
  const std::size_t cores = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  const std::size_t piece = std::max(smallest, count / (cores * 8) + 1);
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t begin = next.fetch_add(piece); begin < count; begin = next.fetch_add(piece)) {
      work(begin, std::min(begin + piece, count));
    }
  };
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 1; i < std::min(cores, count / piece + 1); ++i) threads.emplace_back(take);
  } catch (const std::system_error&) {  // no more threads to be had: the others do it
  }
  take();
}

}  // namespace sonde
