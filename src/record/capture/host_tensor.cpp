#include "record/capture/host_tensor.h"

#include <algorithm>
#include <cstring>

#include "ground/tensor/mix.h"

namespace sonde {

void c_order_strides(std::span<const std::int64_t> shape, std::span<std::int64_t> out) {
  std::uint64_t stride = 1;  // wraps around if the sizes are nonsense
  for (std::size_t d = shape.size(); d-- > 0;) {
    out[d] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(std::max<std::int64_t>(shape[d], 1));
  }
}

Dims c_order_strides(std::span<const std::int64_t> shape) {
  const auto strides = std::make_unique<std::int64_t[]>(shape.size());
  c_order_strides(shape, {strides.get(), shape.size()});
  return Dims(std::span<const std::int64_t>(strides.get(), shape.size()));
}

TensorKey key_of(const HostTensor& tensor) {
  const TensorView& view = tensor.view;
  TensorKey key;
  const bool lazy_bits = view.conjugate || view.negative;
  key.storage = tensor.foreign || lazy_bits ? 0 : tensor.storage;
  key.data = view.data;
  key.dtype = view.dtype;
  key.contiguous = view.is_c_contiguous();
  key.dense = key.contiguous || view.is_dense();
  key.bytes = view.bytes();
  key.shape = view.shape;
  key.strides = view.strides;
  return key;
}

ViewIdentity identity_of(const HostTensor& tensor) {
  const TensorView& view = tensor.view;
  std::uint64_t hash = reinterpret_cast<std::uint64_t>(view.data) + static_cast<std::uint64_t>(view.dtype);
  mix(hash, view.shape.size());
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    mix(hash, static_cast<std::uint64_t>(view.shape[d]));
    // Strides of dimensions of size 1 are noise.
    if (view.shape[d] != 1) mix(hash, static_cast<std::uint64_t>(view.strides[d]));
  }
  return {tensor.storage, tensor.object, hash};
}

std::optional<double> constant_of(const HostTensor& tensor) {
  if (!tensor.constant || !tensor.view.shape.empty() || tensor.view.data == nullptr) return std::nullopt;
  if (tensor.view.device != DeviceType::cpu) return std::nullopt;
  const auto value = [&]<typename T>(T number) {
    std::memcpy(&number, tensor.view.data, sizeof number);
    return static_cast<double>(number);
  };
  switch (tensor.view.dtype) {
    case DType::float64:
      return value(double{});
    case DType::float32:
      return value(float{});
    case DType::int64:
      return value(std::int64_t{});
    case DType::int32:
      return value(std::int32_t{});
    case DType::bool8:
      return value(std::uint8_t{});
    default:
      return std::nullopt;
  }
}

std::uint64_t extent_bytes(const TensorView& view) {
  if (view.elements() == 0) return 0;
  std::uint64_t last = 0;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    last += static_cast<std::uint64_t>(std::max<std::int64_t>(view.shape[d] - 1, 0) *
                                       std::max<std::int64_t>(view.strides[d], 0));
  }
  return (last + 1) * info(view.dtype).item_bytes;
}

bool has_countable_bytes(const TensorView& view) {
  std::int64_t bytes = info(view.dtype).item_bytes;
  for (const std::int64_t size : view.shape) {
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) return false;
  }
  return true;
}

bool overlaps(const void* a, std::uint64_t a_bytes, const void* b, std::uint64_t b_bytes) {
  const auto* first = static_cast<const std::byte*>(a);
  const auto* second = static_cast<const std::byte*>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

}  // namespace sonde
