// Tensors in the memory of a device: CUDA, ROCm, XPU, MPS, and backends of others (PrivateUse1, Ascend's too). The host
// cannot read them. The engine asks for bytes or statistics, a stream of ours or the program's own brings them, and the
// program's thread hands them over at one of its next operators. It waits for the device only in drain_devices().
//
// device_copy.cpp makes the copies; device_statistics.cpp and device_kernel.cpp the statistics, which device_tables.cpp
// brings to the host; device_pinned.cpp has the host's memory for them; device_results.cpp knows the memory of the host
// to which the program's own copies are under way; device_driver.cpp asks the driver what PyTorch does not say.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "ops.h"
#include "tensors.h"

namespace sonde_torch {

// Lends the engine our way to read devices.
void lend_devices();

// The reason why tensors of this device cannot be read; null if they can. Static text.
const char* why_unreadable_device(c10::Device device);

// True if a tensor of a device was read, or was to be.
bool uses_devices();

// While one lives, statistics that this thread asks for may wait; then one launch takes them all. Until then the
// program must not run: it could write or free the tensors.
class LaunchTogether {
 public:
  LaunchTogether();
  ~LaunchTogether();
  LaunchTogether(const LaunchTogether&) = delete;
  LaunchTogether& operator=(const LaunchTogether&) = delete;
};

// Hands over what has arrived, without waiting.
void poll_devices();
// A step is over: its statistics are fetched.
void fetch_statistics();
// Waits for everything that has begun, and hands it over.
void drain_devices();
// A call that does not wait until a device has copied to the host.
struct EarlyReturn {
  c10::Device device;
  std::vector<std::uint64_t> storages;  // of the host, to which it copies
};
// Null: the operator is not called so.
std::unique_ptr<EarlyReturn> early_return(const OpInfo& info, c10::ArrayRef<const c10::IValue> values);
// It has returned.
void results_come_later(EarlyReturn& early, c10::ArrayRef<const c10::IValue> results);
// The memory has no meaning yet.
bool is_on_its_way(std::uint64_t storage);

bool is_capturing(c10::Device device);
// In a forked child, which has no device.
void forget_devices();

}  // namespace sonde_torch
