// HostTensor: a tensor of the host in the engine's own types, borrowed for the duration of one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "ground/stats/device.h"
#include "record/capture/content_cache.h"
#include "sonde/tensor.h"

namespace sonde {

struct HostTensor {
  TensorView view;                        // always with strides: `own_strides` if the host gave none
  const DeviceAccess* access = nullptr;   // reads its memory; null if `skip` is set, or `handle`
  const void* handle = nullptr;           // of the host, which alone can read its memory (capture/devices.h)
  const char* skip = nullptr;             // static text: why it cannot be read; null if it can
  const char* placement = nullptr;        // how it is part of a distributed tensor; null: it is not a part
  std::uint32_t writer = 0;               // as in sonde_tensor
  bool settled = false;                   // it counts in optimizers alone
  bool foreign = false;                   // its memory may change unnoticed
  bool observed = false;                  // foreign, but fresh memory is written by operators alone
  bool constant = false;                  // a number of the user's code, wrapped as a tensor
  bool uninitialised = false;             // its bytes mean nothing until an op writes them
  std::uint64_t storage = 0, object = 0;  // as in sonde_tensor; 0: unknown
  const std::byte* storage_data = nullptr;
  std::uint64_t storage_bytes = 0;
  std::unique_ptr<std::int64_t[]> own_strides;  // a copy of the object would borrow them: it can only be moved
};

// Strides in elements, in C order; `out` has one for each size.
void c_order_strides(std::span<const std::int64_t> shape, std::span<std::int64_t> out);
Dims c_order_strides(std::span<const std::int64_t> shape);

// The key of the tensor for finding equal bytes. `storage` is 0 for memory that may change unnoticed.
TensorKey key_of(const HostTensor& tensor);
// The key of the tensor for finding its origin, whether it is readable or not.
ViewIdentity identity_of(const HostTensor& tensor);

// The value of a constant; empty if the tensor is not a constant or the number is not real.
std::optional<double> constant_of(const HostTensor& tensor);

// Bytes from the first to the last element of `view`; 0 if it has none.
std::uint64_t extent_bytes(const TensorView& view);

// False if the sizes multiply to more than an int64 of bytes: only expanded views can.
bool has_countable_bytes(const TensorView& view);

bool overlaps(const void* a, std::uint64_t a_bytes, const void* b, std::uint64_t b_bytes);

}  // namespace sonde
