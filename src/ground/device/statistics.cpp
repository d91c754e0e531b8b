#include "ground/device/statistics.h"

namespace sonde::device {

Status enqueue_statistics(const Queue& queue, std::span<const TensorView> views, Record* records) {
  return launch_batches(views, [&](const Batch& batch, std::uint32_t blocks, std::uint64_t first_record) {
    return launch_kernel(queue, batch, blocks, records + first_record);
  });
}

}  // namespace sonde::device
