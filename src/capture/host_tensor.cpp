#include "capture/host_tensor.h"

#include <algorithm>
#include <cstring>

#include "tensor/mix.h"

namespace sonde {

TensorView view_of(const sonde_tensor& t) {
  TensorView view;
  view.dtype = static_cast<DType>(t.dtype);
  view.device = static_cast<DeviceType>(t.device);
  view.data = static_cast<const std::byte*>(t.data);
  view.shape = {t.shape, t.ndim};
  view.strides = {t.strides, t.ndim};
  view.conjugate = (t.flags & SONDE_TENSOR_CONJUGATE) != 0;
  view.negative = (t.flags & SONDE_TENSOR_NEGATIVE) != 0;
  return view;
}

TensorKey key_of(const sonde_tensor& t, const TensorView& view) {
  TensorKey key;
  const bool lazy_bits = view.conjugate || view.negative;
  key.storage = (t.flags & SONDE_TENSOR_FOREIGN) != 0 || lazy_bits ? 0 : t.storage;
  key.data = t.data;
  key.dtype = view.dtype;
  key.contiguous = view.is_c_contiguous();
  key.dense = key.contiguous || view.is_dense();
  key.bytes = view.bytes();
  key.shape = view.shape;
  key.strides = view.strides;
  return key;
}

Place place_of(const sonde_tensor& t) {
  std::uint64_t hash = reinterpret_cast<std::uint64_t>(t.data) + static_cast<std::uint64_t>(t.dtype);
  mix(hash, t.ndim);
  for (std::uint32_t d = 0; d < t.ndim; ++d) {
    mix(hash, static_cast<std::uint64_t>(t.shape[d]));
    // Strides of dimensions of size 1 are noise.
    if (t.strides != nullptr && t.shape[d] != 1) mix(hash, static_cast<std::uint64_t>(t.strides[d]));
  }
  return {t.storage, t.object, hash};
}

std::optional<double> constant_of(const sonde_tensor& t) {
  if ((t.flags & SONDE_TENSOR_CONSTANT) == 0 || t.ndim != 0 || t.data == nullptr) return std::nullopt;
  const auto value = [&]<typename T>(T held) {
    std::memcpy(&held, t.data, sizeof held);
    return static_cast<double>(held);
  };
  switch (static_cast<DType>(t.dtype)) {
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

bool has_countable_bytes(const sonde_tensor& tensor) {
  std::int64_t bytes = info(static_cast<DType>(tensor.dtype)).item_bytes;
  for (std::uint32_t d = 0; d < tensor.ndim; ++d) {
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(tensor.shape[d], 1), &bytes)) return false;
  }
  return true;
}

bool overlaps(const void* a, std::uint64_t a_bytes, const void* b, std::uint64_t b_bytes) {
  const auto* first = static_cast<const std::byte*>(a);
  const auto* second = static_cast<const std::byte*>(b);
  return first < second + b_bytes && second < first + a_bytes;
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

}  // namespace sonde
