// The numbers of a tensor by PyTorch's reductions: rows of them on the device, which the host adds up.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sonde/sonde.h"

namespace sonde_torch {

// Elements of a piece: PyTorch's reductions take some copies of it in double precision, so 48 MB at most.
inline constexpr std::int64_t kPiece = 1 << 19;

// Devices without double precision compute in float.
inline at::ScalarType number_type(c10::Device device) { return device.is_mps() ? at::kFloat : at::kDouble; }

// A row of the result for each row of `values`, which are of number_type().
at::Tensor numbers_of(const at::Tensor& values);
at::Tensor numbers_of_piece(const at::Tensor& piece);

// Adds rows that the host has, from numbers_of().
void add_rows(const std::byte* rows, std::int64_t bytes, at::ScalarType type, sonde_device_result& to);

// Calls take(piece) for pieces of at most kPiece elements.
template <typename Take>
void for_each_piece(const at::Tensor& tensor, Take take) {
  if (tensor.numel() <= kPiece) return take(tensor);
  const auto sizes = tensor.sizes();
  const std::int64_t longest = std::ranges::max_element(sizes) - sizes.begin();
  const std::int64_t size = tensor.size(longest);
  const std::int64_t length = std::max<std::int64_t>(1, size * kPiece / tensor.numel());
  for (std::int64_t first = 0; first < size; first += length) {
    for_each_piece(tensor.narrow(longest, first, std::min(length, size - first)), take);
  }
}

// The elements in the order of their memory, if they fill it: pieces are then cut from one row.
at::Tensor flat_in_memory(const at::Tensor& tensor);

}  // namespace sonde_torch
