// The engine's statistics kernel, on CUDA and ROCm. One launch costs the host some 4 us, so the tensors that an operator's
// callback asks for are launched together at its end: an optimizer's step has hundreds.
#include <array>
#include <atomic>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_tables.h"
#include "setup.h"

namespace sonde_torch {
namespace {

// More records do not wait: an optimizer's step may have gigabytes of parameters, and the training needs the memory.
constexpr std::int64_t kMostQueuedBytes = 1 << 20;

// Whether the kernel works, by device: another one may have another driver or architecture.
enum class Kernel : std::uint8_t { unknown, works, refused };

std::atomic<Kernel>& kernel_of(c10::DeviceIndex device) {
  static std::array<std::atomic<Kernel>, 256> kernels{};
  return kernels.at(static_cast<std::uint8_t>(device));
}

// Tensors for one launch on one stream.
struct Queued {
  c10::Stream stream;
  void* native_stream;
  std::int64_t bytes = 0;                // of their records
  std::vector<RowsOf> rows{};            // of each tensor
  std::vector<sonde_tensor> tensors{};   // without shapes and strides
  std::vector<std::int64_t> geometry{};  // the shape and the strides of each tensor, one after the other
};

// Of this thread, while it reports an operator.
struct Reports {
  int depth = 0;
  std::optional<Queued> queued{};
};
thread_local Reports t_reports;

sonde_device_queue native_queue(const Queued& queued) {
  sonde_device_queue queue{};
  queue.size = sizeof queue;
  queue.runtime = is_rocm() ? SONDE_RUNTIME_ROCM : SONDE_RUNTIME_CUDA;
  queue.stream = queued.native_stream;
  queue.device = static_cast<std::uint32_t>(queued.stream.device_index());
  return queue;
}

void add(Queued& queued, const ReadingPtr& reading, const sonde_tensor& tensor, std::int64_t bytes) {
  RowsOf rows{.reading = reading, .bytes = bytes, .of_kernel = true, .elements = 1, .flags = tensor.flags};
  for (std::uint32_t i = 0; i < tensor.ndim; ++i) rows.elements *= static_cast<std::uint64_t>(tensor.shape[i]);
  queued.rows.push_back(std::move(rows));
  queued.tensors.push_back(tensor);
  queued.geometry.insert(queued.geometry.end(), tensor.shape, tensor.shape + tensor.ndim);
  queued.geometry.insert(queued.geometry.end(), tensor.strides, tensor.strides + tensor.ndim);
  queued.bytes += bytes;
}

// Returns why the kernel refuses, or nothing. Throws what PyTorch throws if there is no memory for the records.
std::optional<std::string> enqueue(Queued& queued) {
  std::vector<const sonde_tensor*> tensors;
  const std::int64_t* geometry = queued.geometry.data();
  for (sonde_tensor& tensor : queued.tensors) {
    tensor.shape = geometry;
    tensor.strides = geometry + tensor.ndim;
    geometry += 2 * tensor.ndim;
    tensors.push_back(&tensor);
  }
  const BesideCaptures beside;
  const sonde_device_queue queue = native_queue(queued);
  std::vector<RowsOf> lost;
  std::array<char, 512> message{};
  bool launched = false;
  {
    const auto all = row_tables().lock();
    RowTable& table = room_for(*all, queued.stream, queued.bytes, lost);
    auto* records = static_cast<std::byte*>(table.memory.data_ptr()) + table.used;
    launched = api().device_statistics(&queue, tensors.data(), static_cast<std::uint32_t>(tensors.size()), records,
                                       message.data(), message.size()) == 0;
    if (launched) {
      for (RowsOf& rows : queued.rows) add_to(*all, table, std::move(rows));
    }
  }
  fail_all(lost);
  if (!launched) return message.data();
  kernel_of(queued.stream.device_index()) = Kernel::works;
  return {};
}

void fail(Queued& queued, const char* why) {
  std::erase_if(queued.rows, [](const RowsOf& rows) { return rows.reading == nullptr; });  // those are in the table
  for (RowsOf& rows : queued.rows) rows.lost = why;
  fail_all(queued.rows);
}

// Returns why the kernel refuses. Otherwise the tensors are read, or have been reported as failed.
std::optional<std::string> launch(Queued& queued) {
  try {
    return enqueue(queued);
  } catch (const c10::OutOfMemoryError&) {
    fail(queued, "the device had no memory for its statistics");
  } catch (...) {  // the stream was destroyed, or the device is gone
    fail(queued, kDeviceFailed);
  }
  return {};
}

// One tensor, at once. The first of a device must be: there may be no kernel for it.
bool launch_alone(Queued& queued, std::atomic<Kernel>& kernel) {
  const auto refusal = launch(queued);
  if (refusal && kernel.exchange(Kernel::refused) != Kernel::refused) {
    std::fprintf(stderr, "sonde: %s; PyTorch's reductions take the statistics, which is slower\n", refusal->c_str());
  }
  return !refusal;
}

}  // namespace

bool begin_kernel(const ReadingPtr& reading, const sonde_tensor& tensor, c10::Device device) {
  if (!device.is_cuda()) return false;
  std::atomic<Kernel>& kernel = kernel_of(device.index());
  if (kernel == Kernel::refused) return false;
  const c10::Stream stream = current_stream(device);
  const std::int64_t bytes = api().device_record_bytes(&tensor);
  const std::optional<void*> native = native_handle(stream);
  if (bytes < 0 || !native) return false;
  Reports& reports = t_reports;
  const bool waits = reports.depth > 0 && kernel == Kernel::works;
  const auto fits = [&](const Queued& queued) {
    return queued.stream == stream && queued.bytes + bytes <= kMostQueuedBytes;
  };
  if (reports.queued && (!waits || !fits(*reports.queued))) launch_queued();
  if (!waits) {
    Queued alone{stream, *native};
    add(alone, reading, tensor, bytes);
    reading->parts.fetch_add(1);
    if (launch_alone(alone, kernel)) return true;
    reading->parts.fetch_sub(1);
    return false;
  }
  if (!reports.queued) reports.queued.emplace(Queued{stream, *native});
  reading->parts.fetch_add(1);
  add(*reports.queued, reading, tensor, bytes);
  return true;
}

void launch_queued() {
  std::optional<Queued> queued;
  std::swap(queued, t_reports.queued);
  if (!queued) return;
  if (launch(*queued)) fail(*queued, kDeviceFailed);  // it has worked before
}

LaunchTogether::LaunchTogether() { ++t_reports.depth; }

LaunchTogether::~LaunchTogether() {
  if (--t_reports.depth == 0) launch_queued();
}

}  // namespace sonde_torch
