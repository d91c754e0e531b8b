#include "record/writer/op_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "dump/formats/cann_types.h"

namespace sonde {
namespace {

constexpr std::string_view kFront = "Input/Output,Index,Data Size,Data Type,Format,Shape";

struct Column {
  Category category;
  std::string_view name;
};
// In the order of writing. Count comes first, or, with the default columns, after Avg Value.
const std::vector<Column>& columns_of_table() {
  static const std::vector<Column> columns = [] {
    std::vector<Column> found;
    for (const std::string_view name : {"Max Value", "Min Value", "Avg Value", "Count", "Nan Count",
                                        "Negative Inf Count", "Positive Inf Count", "l2norm"}) {
      found.push_back({*category_from_title(name), name});
    }
    return found;
  }();
  return columns;
}

// CANN's comparisons skip NaN but include infinities.
Statistics without_nan(Statistics of) {
  of.count -= of.nan_count;
  of.nan_count = 0;
  return of;
}

// As the conversion to int on the processors in question: a value that does not fit becomes the smallest number, and of
// longer integers the low half is kept.
std::int32_t as_int32(double value, bool from_integer) {
  if (from_integer && std::abs(value) < 9e18) return static_cast<std::int32_t>(static_cast<std::int64_t>(value));
  const bool fits = value > -2147483649.0 && value < 2147483648.0;
  return fits ? static_cast<std::int32_t>(value) : std::numeric_limits<std::int32_t>::min();
}

// The largest or smallest element.
std::string extreme_text(const TensorRecord& tensor, Category category, bool quirks) {
  const double value = value_of(without_nan(tensor.statistics), category);
  if (quirks && tensor.statistics.first_is_nan) return "nan";
  const bool integer = !is_floating(tensor.dtype);
  if (quirks && tensor.dtype != DType::int64 && (integer || tensor.dtype == DType::float64)) {
    return std::to_string(as_int32(value, integer));
  }
  return integer ? fmt::format("{:.0f}", value) : number_text(value);
}

std::string table_sizes(const Dims& shape) {
  if (shape.size() == 0) return "-";
  std::string text;
  for (const std::int64_t size : shape.values()) text.append(text.empty() ? "" : "x").append(std::to_string(size));
  return text;
}

std::uint64_t elements(const Dims& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape.values()) count *= static_cast<std::uint64_t>(size);
  return count;
}

std::string type_text(DType dtype, bool quirks) {
  const std::int32_t number = cann_type(dtype);
  if (number != kCannUndefined) return "DT_" + cann_type_name(number);
  return quirks ? "UNKNOW" : "UNKNOWN";
}

}  // namespace

OpTableForm::OpTableForm(std::span<const Category> categories, bool quirks) : quirks_(quirks) {
  const auto wanted = [&](Category category) { return std::ranges::count(categories, category) > 0; };
  default_ = std::ranges::all_of(columns_of_table(), [&](const Column& column) {
    const bool optional = column.category == Category::count;
    return optional || wanted(column.category) == (column.category != Category::l2norm);
  });
  if (!default_) columns_.push_back(Category::count);
  for (const Column& column : columns_of_table()) {
    const bool is_count = column.category == Category::count;
    if (is_count ? default_ : wanted(column.category)) columns_.push_back(column.category);
  }
}

std::string OpTableForm::header() const {
  std::string line(kFront);
  for (const Category category : columns_) {
    line.append(",").append(std::ranges::find(columns_of_table(), category, &Column::category)->name);
  }
  return line.append("\n");
}

std::string OpTableForm::cell(const TensorRecord& tensor, Category category) const {
  if (category == Category::count && (tensor.has_statistics || !quirks_)) {
    return std::to_string(elements(tensor.shape));
  }
  if (!tensor.has_statistics) return "NA";
  if (category == Category::max || category == Category::min) return extreme_text(tensor, category, quirks_);
  return text_of(tensor.statistics, category);
}

void OpTableForm::append_row(const TensorRecord& tensor, std::string& out) const {
  const std::uint64_t bytes = elements(tensor.shape) * info(tensor.dtype).item_bytes;
  const Format format = named_for_cann(tensor.format, tensor.shape.size());
  out.append(fmt::format("{},{},{},{},{},{}", tensor.is_input ? "Input" : "Output", tensor.slot, bytes,
                         type_text(tensor.dtype, quirks_), name_of(format), table_sizes(tensor.shape)));
  for (const Category category : columns_) {
    // CANN omits the cell if nothing could be computed, except in the default columns.
    const bool forgotten = quirks_ && !default_ && !tensor.has_statistics && category == Category::count;
    if (!forgotten) out.append(",").append(cell(tensor, category));
  }
  out.push_back('\n');
}

}  // namespace sonde
