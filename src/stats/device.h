// DeviceAccess: reads the bytes of one kind of memory. Everything capture does to a tensor's bytes goes through
// it, so another kind of device is one more file that registers its own (host_device.cpp is the one for host memory).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sonde/tensor.h"
#include "stats/statistics.h"

namespace sonde {

// All functions: any thread, the view's memory is readable for the length of the call. `out` is host memory.
struct DeviceAccess {
  const char* name;  // "host"
  Statistics (*summarize)(const TensorView& view);
  Statistics (*summarize_and_copy)(const TensorView& view, std::byte* out);  // C order
  void (*copy_c_order)(const TensorView& view, std::byte* out);
  void (*copy_block)(const std::byte* from, std::size_t bytes, std::byte* out);  // in memory order
  // The first elements of the walk in C order, the lazy bits not resolved.
  void (*copy_first)(const TensorView& view, std::size_t elements, std::byte* out);
  bool (*all_finite)(const TensorView& view);
  std::uint64_t (*fingerprint)(const TensorView& view);  // of the bytes in C order
  std::string (*md5_hex)(const TensorView& view);
  std::string (*sha1_hex)(const TensorView& view);
};

// Null when nothing of this build reads such memory.
const DeviceAccess* device_access(DeviceType device);
// Before the first session; `access` lives for ever. The host is there from the start.
void register_device(DeviceType device, const DeviceAccess& access);

const DeviceAccess& host_access();

}  // namespace sonde
