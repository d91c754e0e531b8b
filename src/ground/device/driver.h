// The driver of a device: loads the compiled kernel and launches it.
#pragma once

#include <cstdint>

#include "ground/device/kernel_layout.h"
#include "ground/device/runtime.h"
#include "sonde/result.h"

namespace sonde::device {

// A device of this process, its number as the runtime counts, and one of its streams (cudaStream_t, hipStream_t).
struct Queue {
  Runtime runtime = Runtime::cuda;
  int device = 0;
  void* stream = nullptr;  // the default stream
};

// Launches the kernel on the queue. The first call for a device compiles it, which takes about a second; if that fails,
// the reason is the same for every later call. The thread's current device is left as it was. Any thread.
Status launch_kernel(const Queue& queue, const Batch& batch, std::uint32_t blocks, Record* records);

}  // namespace sonde::device
