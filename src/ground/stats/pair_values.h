// PairValues: the elements of a view, from any place in it, as float or as double.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ground/stats/pair_kernels.h"
#include "ground/tensor/walk.h"
#include "sonde/tensor.h"

namespace sonde {

// True if float can represent every value of the type.
bool fits_float32(DType dtype);

class PairValues {
 public:
  // `complex`: elements are two values, real and imaginary part (0 if the type has none).
  PairValues(const PairKernel& kernel, const TensorView& view, bool complex);

  // The next `count` values, the first time from `first` on; valid until the next call. At most kPairBlock at a time. T
  // is float or double. The result may point into the view itself.
  template <typename T>
  const T* next(std::size_t count);
  void seek(std::uint64_t first);

 private:
  const std::byte* bytes(std::size_t elements);
  template <typename T>
  void convert(const std::byte* from, T* to, std::size_t parts);

  const PairKernel& kernel_;
  const TensorView& view_;
  std::size_t item_bytes_;
  std::size_t parts_ = 1;  // of an element in memory: 2 of a complex one
  std::size_t taken_ = 1;  // of these, or a 0 in place of the second
  bool direct_;            // elements lie side by side
  std::uint64_t at_ = 0;   // element
  std::optional<Cursor> cursor_;
  std::vector<std::byte> copy_;
  std::vector<double> values_, parts_buffer_;
};

}  // namespace sonde
