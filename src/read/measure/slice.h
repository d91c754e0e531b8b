// Slice: a part of a tensor, in NumPy's words.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sonde/result.h"
#include "sonde/tensor.h"

namespace sonde {

// Shares the memory of the tensor it is of.
struct Slice {
  TensorView whole;
  std::int64_t offset = 0;  // of its first element, in elements of `whole`
  std::vector<std::int64_t> shape, strides;

  std::int64_t elements() const;
  // Where the element with this number in C order is, in elements of `whole`.
  std::int64_t place_of(std::int64_t flat) const;
  TensorView view() const;  // valid as long as this object
};

// `[0,:,1:10]`, with or without brackets: numbers remove their axis, and may count from the end; `a:b:c` with a positive
// c; axes that are not named are whole. Empty: all. Fails with the axis and what was expected.
Result<Slice> slice_of(const TensorView& view, std::string_view text);

}  // namespace sonde
