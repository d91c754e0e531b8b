// The text of src/ground/device/statistics.cu on the CPU: its threads are a loop, its memory is the host's. So the algorithm is
// tested where no GPU is; tests/python/test_device_cuda.py tests it on one.
#pragma once

#include <cstdint>

#include "ground/device/kernel_layout.h"

namespace sonde::device {

// The order in which the threads of a block run between two of their meetings, and the blocks of the grid.
enum class ThreadOrder { ascending, descending, shuffled };

// Runs `blocks` thread blocks one after the other.
void run_grid(const Batch& batch, std::uint32_t blocks, Record* records, ThreadOrder order = ThreadOrder::shuffled);

}  // namespace sonde::device
