#include "record/capture/device_kernel.h"

#include <exception>
#include <vector>

#include "ground/device/statistics.h"
#include "record/capture/abi.h"

namespace sonde {
namespace {

using device::Runtime;

Status enqueue(const sonde_device_queue& queue, std::span<const sonde_tensor* const> tensors, device::Record* records) {
  if (!is_complete(queue)) return Error{ErrorCode::invalid_argument, too_short(queue)};
  if (queue.runtime != SONDE_RUNTIME_CUDA && queue.runtime != SONDE_RUNTIME_ROCM) {
    return Error{ErrorCode::unsupported, "no statistics kernel for runtime " + std::to_string(queue.runtime) +
                                             "; there is one for CUDA (1) and ROCm (2)"};
  }
  std::vector<HostTensor> hosts;
  std::vector<TensorView> views;
  hosts.reserve(tensors.size());  // a view may have the strides of its host
  for (const sonde_tensor* tensor : tensors) {
    if (!is_complete(*tensor)) return Error{ErrorCode::invalid_argument, too_short(*tensor)};
    views.push_back(hosts.emplace_back(tensor_of(completed(*tensor))).view);
  }
  const device::Queue on = {.runtime = queue.runtime == SONDE_RUNTIME_CUDA ? Runtime::cuda : Runtime::rocm,
                            .device = static_cast<int>(queue.device),
                            .stream = queue.stream};
  return enqueue_statistics(on, views, records);
}

}  // namespace

std::int64_t device_record_bytes(const sonde_tensor* tensor) {
  if (!is_complete(*tensor)) return -1;
  const HostTensor host = tensor_of(completed(*tensor));
  const auto records = device::count_records(host.view);
  return records ? static_cast<std::int64_t>(*records * sizeof(device::Record)) : -1;
}

int device_statistics(const sonde_device_queue* queue, const sonde_tensor* const* tensors, std::uint32_t count,
                      void* records, char* message, std::size_t message_bytes) {
  std::string complaint;
  try {
    const Status status = enqueue(*queue, {tensors, count}, static_cast<device::Record*>(records));
    if (status) return 0;
    complaint = status.error().message;
  } catch (const std::exception& error) {
    complaint = std::string("cannot use the statistics kernel: ") + error.what();
  }
  copy_text(complaint, message, message_bytes);
  return -1;
}

void device_fold(const void* records, std::uint64_t elements, std::uint32_t flags, sonde_device_result* result) {
  const Statistics found = device::fold({static_cast<const device::Record*>(records), device::records_of(elements)},
                                        elements, (flags & SONDE_TENSOR_NEGATIVE) != 0);
  for_each_count([](std::uint64_t& to, std::uint64_t from) { to = from; }, *result, found);
  result->max = found.max;
  result->min = found.min;
  result->sum = found.sum;
  result->sum_squares = found.sum_squares;
}

}  // namespace sonde
