#include "ask/relations/tensor_print.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ground/base/shape.h"
#include "read/measure/values.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

// Rows of few elements are alike by chance.
bool has_rows(const std::vector<std::int64_t>& shape) {
  constexpr std::int64_t kFewestInRow = 8;
  if (shape.size() < 3 || shape.back() < kFewestInRow) return false;
  std::int64_t rows = 1;
  for (std::size_t axis = 0; axis + 1 < shape.size(); ++axis) rows *= shape[axis];
  return rows <= kLongestAxis;
}

// Adds up one row after the other: the last axis by column, every other axis by the row's place.
class Adder {
 public:
  Adder(const std::vector<std::int64_t>& shape, TensorPrint& into, bool with_parts)
      : shape_(shape), into_(into), place_(shape.size(), 0) {
    into_.parts.resize(shape.size());
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (with_parts && shape[axis] <= kLongestAxis) into_.parts[axis].resize(static_cast<std::size_t>(shape[axis]));
    }
    has_rows_ = with_parts && has_rows(shape);
    into_.min = std::numeric_limits<double>::infinity();
    into_.max = -into_.min;
    into_.whole_numbers = true;
  }

  template <typename Values>
  void add_row(const Values* row, std::size_t size) {
    double sum = 0, squares = 0, least = into_.min, most = into_.max;
    Extent* columns = into_.parts.empty() || into_.parts.back().empty() ? nullptr : into_.parts.back().data();
    for (std::size_t i = 0; i < size; ++i) {
      const double value = static_cast<double>(row[i]);
      if (!std::isfinite(value)) {
        ++into_.non_finite;
        continue;
      }
      sum += value;
      squares += value * value;
      least = std::min(least, value);
      most = std::max(most, value);
      if (columns == nullptr) continue;
      columns[i].sum += value;
      columns[i].norm += value * value;
    }
    into_.min = least;
    into_.max = most;
    if (into_.whole_numbers) look_for_fractions(row, size);
    into_.whole.sum += sum;
    into_.whole.norm += squares;
    if (has_rows_) into_.rows.push_back({sum, squares});
    for (std::size_t axis = 0; axis + 1 < shape_.size(); ++axis) {
      if (into_.parts[axis].empty()) continue;
      Extent& part = into_.parts[axis][static_cast<std::size_t>(place_[axis])];
      part.sum += sum;
      part.norm += squares;
    }
    advance();
  }

  // Squares become norms.
  void finish() {
    into_.whole.norm = std::sqrt(into_.whole.norm);
    for (std::vector<Extent>& axis : into_.parts) {
      for (Extent& part : axis) part.norm = std::sqrt(part.norm);
    }
    for (Extent& row : into_.rows) row.norm = std::sqrt(row.norm);
    if (into_.min > into_.max) into_.min = into_.max = 0;
  }

 private:
  template <typename Values>
  void look_for_fractions(const Values* row, std::size_t size) {
    for (std::size_t i = 0; i < size && into_.whole_numbers; ++i) {
      const double value = static_cast<double>(row[i]);
      into_.whole_numbers = !std::isfinite(value) || value == std::floor(value);
    }
  }

  void advance() {
    for (std::size_t axis = shape_.size() - 1; axis-- > 0;) {
      if (++place_[axis] < shape_[axis]) return;
      place_[axis] = 0;
    }
  }

  const std::vector<std::int64_t>& shape_;
  TensorPrint& into_;
  std::vector<std::int64_t> place_;
  bool has_rows_ = false;
};

template <typename Values>
void add_rows(Adder& adder, const std::byte* data, std::size_t rows, std::size_t width) {
  const auto* values = reinterpret_cast<const Values*>(data);
  for (std::size_t row = 0; row < rows; ++row) adder.add_row(values + row * width, width);
}

void add_rows_of_any_type(Adder& adder, const TensorView& view, std::size_t rows, std::size_t width) {
  std::vector<double> row(width);
  for (std::size_t at = 0; at < rows; ++at) {
    for (std::size_t i = 0; i < width; ++i) row[i] = element_value(view, static_cast<std::int64_t>(at * width + i));
    adder.add_row(row.data(), width);
  }
}

}  // namespace

TensorPrint print_of(const TensorView& view, const std::vector<std::int64_t>& shape, bool with_parts) {
  TensorPrint print;
  print.count = static_cast<std::uint64_t>(view.elements());
  print.by_values = true;
  if (print.count == 0 || info(view.dtype).item_bytes == 0) return {};
  std::vector<std::byte> copy;
  TensorView dense = view;
  std::vector<std::int64_t> strides;
  if (!view.is_c_contiguous()) {
    copy.resize(view.bytes());
    copy_c_order(view, copy.data());
    std::int64_t stride = view.elements();
    for (const std::int64_t size : view.shape) strides.push_back(stride /= std::max<std::int64_t>(size, 1));
    dense.data = copy.data();
    dense.strides = strides;
  }
  const std::size_t width = shape.empty() ? 1 : static_cast<std::size_t>(shape.back());
  const std::size_t rows = static_cast<std::size_t>(print.count) / width;
  const std::vector<std::int64_t> one{1};
  Adder adder(shape.empty() ? one : shape, print, with_parts);
  switch (view.dtype) {
    case DType::float32:
      add_rows<float>(adder, dense.data, rows, width);
      break;
    case DType::float64:
      add_rows<double>(adder, dense.data, rows, width);
      break;
    case DType::int64:
      add_rows<std::int64_t>(adder, dense.data, rows, width);
      break;
    default:
      add_rows_of_any_type(adder, dense, rows, width);
  }
  adder.finish();
  if (shape.empty()) print.parts.clear();
  return print;
}

TensorPrint print_of(const CatalogTensor& tensor) {
  TensorPrint print;
  if (!tensor.statistics || !tensor.has_shape) return print;
  const KnownStatistics& known = *tensor.statistics;
  if (!known.max || !known.min || !known.avg || !known.l2norm || !std::isfinite(*known.l2norm)) return print;
  print.count = element_count(tensor.shape);
  print.whole = {*known.avg * static_cast<double>(print.count), *known.l2norm};
  print.min = *known.min;
  print.max = *known.max;
  print.whole_numbers = !is_floating(tensor.dtype);
  print.non_finite = known.non_finite_count();
  return print;
}

}  // namespace sonde
