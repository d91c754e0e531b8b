// DeviceAccess: reads the bytes of one kind of memory. Capture reads a tensor's bytes only through it, so another kind
// of device needs only another file that registers its functions (host_device.cpp does so for host memory).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ground/stats/statistics.h"
#include "sonde/tensor.h"

namespace sonde {

// All functions: any thread; the view's memory is readable for the length of the call. `out` is host memory.
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

// Null if this build cannot read such memory.
const DeviceAccess* device_access(DeviceType device);
// Must be called before the first session; `access` must live forever. The host's own is registered from the start.
void register_device(DeviceType device, const DeviceAccess& access);

const DeviceAccess& host_access();

}  // namespace sonde
