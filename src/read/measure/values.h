// Values: single elements of a tensor as text, a corner of it, and the distribution of its values.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ground/tensor/walk.h"
#include "sonde/tensor.h"

namespace sonde {

// The element that lies `index` elements after the first in memory: a whole number in full, others
// as `%g`, complex as `1+2j`.
std::string element_text(const TensorView& view, std::int64_t index);
// The same as a number; the real part of a complex one.
double element_value(const TensorView& view, std::int64_t index);
// The absolute value of a complex element; other elements unchanged.
double element_magnitude(const TensorView& view, std::int64_t index);
std::complex<double> element_complex(const TensorView& view, std::int64_t index);
// All elements as numbers, in C order.
std::vector<double> all_values(const TensorView& view);

// The elements of a view in C order, some at a time, as element_value() gives them. The view must outlive it.
class ValueReader {
 public:
  explicit ValueReader(const TensorView& view) : view_(view), cursor_(view) {}  // elements() > 0
  // The next ones, at most out.size(). Returns their number; 0 at the end.
  std::size_t read(std::span<double> out);

 private:
  const TensorView& view_;
  Cursor cursor_;
  std::vector<std::byte> bytes_;
};
// The element as text that reads back as the same number: the shortest such text, `nan`, `inf`, complex as `(1+2j)`, bool
// as 0 and 1.
std::string exact_text(const TensorView& view, std::int64_t index);

// The first `rows` x `columns` of the last two dimensions, with index 0 in all others.
struct Corner {
  std::string title;                             // "[0, 0, :6, :8]"; empty for a scalar
  std::vector<std::vector<std::string>> values;  // rows of cells
  bool more_rows = false, more_columns = false;
};
Corner corner_of(const TensorView& view, std::size_t rows, std::size_t columns);

// Counts of the finite elements (complex: their magnitudes) in equally wide bins from the smallest to the largest.
struct Histogram {
  double min = 0, max = 0;
  std::vector<std::uint64_t> counts;  // empty: no element is finite. One bin when all are equal
};
// For dense views; every tensor of a file is dense.
Histogram histogram_of(const TensorView& view, std::size_t bins);

}  // namespace sonde
