#include "read/measure/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstring>
#include <limits>

#include "ground/stats/statistics.h"
#include "ground/tensor/visit.h"

namespace sonde {
namespace {

template <typename T>
T load(const TensorView& view, std::int64_t index) {
  T value;
  std::memcpy(&value, view.data + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// The number at `index`; of a complex type, parts count.
double part_at(const TensorView& view, std::int64_t index) {
  return visit(part_of(view.dtype), [&]<typename Element>(Element) -> double {
    if constexpr (std::same_as<Element, NoNumber>) {
      return std::numeric_limits<double>::quiet_NaN();
    } else {
      return static_cast<double>(Element::number(load<typename Element::Stored>(view, index)));
    }
  });
}

// The sign of a NaN has no meaning.
template <typename T>
std::string shortest_text(T value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

std::string index_title(std::size_t leading, std::int64_t rows, std::int64_t columns, std::size_t rank) {
  std::string title = "[";
  for (std::size_t i = 0; i < leading; ++i) title += "0, ";
  if (rank > 1) title += fmt::format(":{}, ", rows);
  return title + fmt::format(":{}]", columns);
}

}  // namespace

std::complex<double> element_complex(const TensorView& view, std::int64_t index) {
  return {part_at(view, 2 * index), part_at(view, 2 * index + 1)};
}

std::vector<double> all_values(const TensorView& view) {
  const auto count = static_cast<std::size_t>(view.elements());
  if (view.dtype == DType::float32) {
    std::vector<float> floats(count);
    copy_c_order(view, reinterpret_cast<std::byte*>(floats.data()));
    return {floats.begin(), floats.end()};
  }
  std::vector<double> values(count);
  std::vector<std::int64_t> place(view.shape.size());
  std::int64_t index = 0;
  for (double& value : values) {
    value = element_value(view, index);
    for (std::size_t axis = place.size(); axis-- > 0;) {
      index += view.strides[axis];
      if (++place[axis] < view.shape[axis]) break;
      index -= place[axis] * view.strides[axis];
      place[axis] = 0;
    }
  }
  return values;
}

std::size_t ValueReader::read(std::span<double> out) {
  bytes_.resize(out.size() * static_cast<std::size_t>(info(view_.dtype).item_bytes));
  const std::size_t count = cursor_.read(bytes_.data(), out.size());
  const std::size_t parts = is_complex(view_.dtype) ? 2 : 1;
  visit(part_of(view_.dtype), [&]<typename Element>(Element) {
    if constexpr (std::same_as<Element, NoNumber>) {
      std::fill_n(out.begin(), count, std::numeric_limits<double>::quiet_NaN());
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        typename Element::Stored stored;
        std::memcpy(&stored, bytes_.data() + i * parts * sizeof(stored), sizeof(stored));
        out[i] = static_cast<double>(Element::number(stored));
      }
    }
  });
  return count;
}

std::string element_text(const TensorView& view, std::int64_t index) {
  switch (view.dtype) {
    case DType::int64:
      return std::to_string(load<std::int64_t>(view, index));
    case DType::uint64:
      return std::to_string(load<std::uint64_t>(view, index));
    case DType::int32:
    case DType::uint32:
    case DType::qint32:
      return fmt::format("{:.0f}", element_value(view, index));
    default:
      break;
  }
  if (is_complex(view.dtype)) {
    const std::complex<double> value = element_complex(view, index);
    return fmt::format("{}{}{}j", number_text(value.real()), std::signbit(value.imag()) ? "" : "+",
                       number_text(value.imag()));
  }
  return number_text(element_value(view, index));
}

double element_value(const TensorView& view, std::int64_t index) {
  return part_at(view, is_complex(view.dtype) ? 2 * index : index);
}

double element_magnitude(const TensorView& view, std::int64_t index) {
  if (!is_complex(view.dtype)) return element_value(view, index);
  // Not std::hypot: its symbol is of glibc 2.35, and the wheel is for systems with 2.34 too.
  return std::abs(element_complex(view, index));
}

std::string exact_text(const TensorView& view, std::int64_t index) {
  switch (view.dtype) {
    case DType::int64:
      return std::to_string(load<std::int64_t>(view, index));
    case DType::uint64:
      return std::to_string(load<std::uint64_t>(view, index));
    case DType::float64:
      return shortest_text(load<double>(view, index));
    case DType::complex32:
    case DType::complex64:
    case DType::complex128: {
      const std::complex<double> value = element_complex(view, index);
      const bool is_wide = view.dtype == DType::complex128;
      const auto text = [&](double part) {
        return is_wide ? shortest_text(part) : shortest_text(static_cast<float>(part));
      };
      return fmt::format("({}{}{}j)", text(value.real()), std::signbit(value.imag()) ? "" : "+", text(value.imag()));
    }
    default:
      break;
  }
  const double value = element_value(view, index);
  return is_floating(view.dtype) ? shortest_text(static_cast<float>(value)) : fmt::format("{:.0f}", value);
}

Corner corner_of(const TensorView& view, std::size_t rows, std::size_t columns) {
  Corner corner;
  const std::size_t rank = view.shape.size();
  const std::int64_t height = rank > 1 ? view.shape[rank - 2] : 1;
  const std::int64_t width = rank > 0 ? view.shape[rank - 1] : 1;
  if (view.elements() == 0) return corner;
  const std::int64_t shown_rows = std::min(height, static_cast<std::int64_t>(rows));
  const std::int64_t shown_columns = std::min(width, static_cast<std::int64_t>(columns));
  const std::int64_t down = rank > 1 ? view.strides[rank - 2] : 0;
  const std::int64_t right = rank > 0 ? view.strides[rank - 1] : 0;
  for (std::int64_t r = 0; r < shown_rows; ++r) {
    std::vector<std::string> cells;
    for (std::int64_t c = 0; c < shown_columns; ++c) {
      cells.push_back(element_text(view, r * down + c * right));
    }
    corner.values.push_back(std::move(cells));
  }
  if (rank > 0) {
    corner.title = index_title(rank > 2 ? rank - 2 : 0, shown_rows, shown_columns, rank);
  }
  corner.more_rows = shown_rows < height;
  corner.more_columns = shown_columns < width;
  return corner;
}

Histogram histogram_of(const TensorView& view, std::size_t bins) {
  Histogram histogram;
  const std::int64_t elements = view.elements();
  bool any = false;
  for (std::int64_t i = 0; i < elements; ++i) {
    const double value = element_magnitude(view, i);
    if (!std::isfinite(value)) continue;
    histogram.min = any ? std::min(histogram.min, value) : value;
    histogram.max = any ? std::max(histogram.max, value) : value;
    any = true;
  }
  if (!any) return histogram;
  if (histogram.min == histogram.max) bins = 1;
  histogram.counts.assign(bins, 0);
  // Halves, so that the range of the largest doubles stays finite.
  const double half_range = histogram.max / 2 - histogram.min / 2;
  for (std::int64_t i = 0; i < elements; ++i) {
    const double value = element_magnitude(view, i);
    if (!std::isfinite(value)) continue;
    const double part = bins == 1 ? 0 : (value / 2 - histogram.min / 2) / half_range;
    const auto bin = static_cast<std::size_t>(part * static_cast<double>(bins));
    ++histogram.counts[std::min(bin, bins - 1)];
  }
  return histogram;
}

}  // namespace sonde
