// TensorPrint: what one read of a tensor leaves for the search: a few numbers of it, and of its part at each index of
// each axis. Reshapes and permutations keep the numbers of the whole, joins and cuts those of the parts.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "read/catalog/catalog.h"
#include "sonde/tensor.h"

namespace sonde {

struct Extent {
  double sum = 0, norm = 0;  // of the finite elements
};

struct TensorPrint {
  std::uint64_t count = 0;  // elements; 0: nothing is known
  Extent whole;
  double min = 0, max = 0;
  bool by_values = false;      // false: from statistics, without parts
  bool whole_numbers = false;  // ids, positions, masks: such tensors are alike by chance
  std::uint64_t non_finite = 0;
  // By axis of the shape without its 1s, by index; an axis that is too long is empty.
  std::vector<std::vector<Extent>> parts;
  // Of three axes and more: by all but the last one, as if they were one. Rows of sequences that are padded.
  std::vector<Extent> rows;

  bool is_constant() const { return count > 0 && min == max; }
  // Elements of a tensor that is equal to another one by chance: it proves nothing.
  bool proves_nothing() const { return count < 8 || is_constant() || whole_numbers || whole.norm == 0; }
};

// Views and copies of a tensor have these numbers, too: elements, norm up to the order of additions, extremes.
using RoundedNumbers = std::tuple<std::uint64_t, float, double, double>;
inline RoundedNumbers rounded_numbers(const TensorPrint& print) {
  return {print.count, static_cast<float>(print.whole.norm), print.min, print.max};
}

// Axes of more indices have no parts.
inline constexpr std::int64_t kLongestAxis = 1 << 18;

// `shape` without its 1s. Reads every element once.
TensorPrint print_of(const TensorView& view, const std::vector<std::int64_t>& shape, bool with_parts = true);
// From the numbers that the dump has; count 0 if they are too few.
TensorPrint print_of(const CatalogTensor& tensor);

}  // namespace sonde
