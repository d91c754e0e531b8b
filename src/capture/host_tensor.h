// A tensor of the host, as sonde.h describes it, in the engine's types.
#pragma once

#include <cstdint>
#include <optional>

#include "capture/identity.h"
#include "sonde/sonde.h"
#include "sonde/tensor.h"
#include "stats/device.h"

namespace sonde {

// Borrows shape, strides and data of `tensor`.
TensorView view_of(const sonde_tensor& tensor);

// What reads its memory; null when nothing of this build does.
inline const DeviceAccess* access_of(const sonde_tensor& tensor) {
  return device_access(static_cast<DeviceType>(tensor.device));
}

// The same tensor for the search of its origin; readable or not.
Place place_of(const sonde_tensor& tensor);

// A number of the user's code, wrapped as a tensor; nothing when it is none or not a real one.
std::optional<double> constant_of(const sonde_tensor& tensor);

// `storage` is 0 for memory that may change unseen.
TensorKey key_of(const sonde_tensor& tensor, const TensorView& view);

// Bytes from the first to the last element of `view`; 0 when it has none.
std::uint64_t extent_bytes(const TensorView& view);

// False when the sizes multiply to more than an int64 of bytes: only expanded views can.
bool has_countable_bytes(const sonde_tensor& tensor);

bool overlaps(const void* a, std::uint64_t a_bytes, const void* b, std::uint64_t b_bytes);

}  // namespace sonde
