// Statistics of tensors in the memory of a device.
#pragma once

#include <span>

#include "ground/device/batch.h"
#include "ground/device/driver.h"

namespace sonde::device {

// Enqueues one kernel that reads all tensors, several if they are more than a launch takes. It writes the records of one
// tensor after the other (count_records of each) to `records`, in the memory of the device, and does not wait for them.
// An error: nothing was enqueued, or, if a launch failed, some of it; the records mean nothing.
Status enqueue_statistics(const Queue& queue, std::span<const TensorView> views, Record* records);

}  // namespace sonde::device
