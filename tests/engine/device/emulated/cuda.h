// The state of the emulated libcuda.so.1, which a test gets from its function emulated_cuda().
#pragma once

#include <cstddef>

namespace sonde::device {

struct EmulatedCuda {
  static constexpr int kWithoutImage = 1;   // a device for which no code can be loaded
  static constexpr int kWithoutLaunch = 2;  // one on which a launch fails
  static constexpr int kDevices = 3;

  std::size_t calls = 0;
  std::size_t launches = 0;
  std::size_t contexts = 0;  // that this thread has pushed and not popped
  void* stream = nullptr;    // of the last launch
};

}  // namespace sonde::device
