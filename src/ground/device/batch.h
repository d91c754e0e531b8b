// Batches of tensors for the statistics kernel, and the statistics from its records. All of it runs on the host, and reads
// no memory of a device.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "ground/device/kernel_layout.h"
#include "ground/stats/statistics.h"
#include "sonde/result.h"
#include "sonde/tensor.h"

namespace sonde::device {

// The records of so many elements: one for each 8192, begun or whole.
constexpr std::uint64_t records_of(std::uint64_t elements) {
  return elements / kBlockElements + (elements % kBlockElements != 0 ? 1 : 0);
}

// The records that the kernel writes for a tensor. An error: the reason why the kernel cannot read it.
Result<std::uint64_t> count_records(const TensorView& view);

// One launch: `blocks` thread blocks, whose records follow `first_record` others.
using Launch = std::function<Status(const Batch& batch, std::uint32_t blocks, std::uint64_t first_record)>;

// Launches the kernel for all tensors: once, or more often if a batch cannot hold them. Nothing is launched if there is a
// tensor that it cannot read.
Status launch_batches(std::span<const TensorView> views, const Launch& launch);

// The statistics of a tensor of `elements` elements, of which these are the records.
Statistics fold(std::span<const Record> records, std::uint64_t elements, bool negative);

}  // namespace sonde::device
