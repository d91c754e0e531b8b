#include "dump/run_files/statistic_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace sonde {
namespace {

// The differences between versions.
struct RowForm {
  bool name_as_in_file;  // otherwise the unchanged full name
  char open, close;      // around a shape
  bool extra_comma;      // at the end of a row
  NonFinite rule;
};

constexpr std::array<RowForm, 6> kForms = {{
    {true, '(', ')', false, NonFinite::left_out},  // 1.2
    {true, '(', ')', false, NonFinite::left_out},  // 1.3
    {true, '(', ')', false, NonFinite::left_out},  // 2.0
    {true, '(', ')', false, NonFinite::spread},    // 2.3
    {true, '(', ')', true, NonFinite::spread},     // 2.5
    {false, '[', ']', true, NonFinite::spread},    // 2.7
}};

void append_cell(std::string_view text, std::string& out) {
  const auto is_special = [](char c) { return c == ',' || c == '"' || c == '\r' || c == '\n'; };
  if (std::ranges::none_of(text, is_special)) {
    out.append(text);
    return;
  }
  out.push_back('"');
  for (const char c : text) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  out.push_back('"');
}

// Rows are many, and fmt reads its format again for each.
void append_number(std::uint64_t number, std::string& out) {
  std::array<char, 20> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end);
}

// As shape_text().
void append_shape(std::span<const std::int64_t> shape, char open, char close, std::string& out) {
  out.push_back(open);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_number(static_cast<std::uint64_t>(shape[i]), out);
  }
  out.push_back(close);
}

std::uint64_t data_bytes(const TensorRecord& tensor) {
  std::uint64_t bytes = info(tensor.dtype).item_bytes;
  for (const std::int64_t size : tensor.shape.values()) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

std::string category_text(const TensorRecord& tensor, Category category, NonFinite rule, bool low_precision) {
  if (category == Category::md5) return tensor.md5;
  if (category == Category::sha1) return tensor.sha1;
  if (low_precision) return text_in_type(tensor.statistics, category, tensor.dtype, rule);
  return text_of(tensor.statistics, category, rule);
}

}  // namespace

std::string statistic_header(std::span<const Category> categories) {
  std::string line(kStatisticColumns);
  for (const Category category : categories) {
    for (const CategoryInfo& row : all_categories()) {
      if (row.category == category) line.append(",").append(row.column);
    }
  }
  return line.append("\n");
}

bool has_statistic_row(const TensorEntry& tensor) {
  if (!tensor.wanted || !tensor.has_statistics) return false;
  return std::ranges::none_of(tensor.shape.values(), [](std::int64_t size) { return size == 0; });
}

StatisticRows::StatisticRows(const Layout& layout, std::span<const Category> categories, bool low_precision)
    : layout_(layout),
      categories_(categories.begin(), categories.end()),
      low_precision_(low_precision),
      known_(kKnown) {}

void StatisticRows::append_cells(const TensorRecord& tensor, std::string& out) const {
  const RowForm& form = kForms[static_cast<std::size_t>(layout_.release())];
  for (const Category category : categories_) {
    out.append(",").append(category_text(tensor, category, form.rule, low_precision_));
  }
  if (form.extra_comma) out.push_back(',');
  out.push_back('\n');
}

const std::string& StatisticRows::cells_of(const TensorRecord& tensor) {
  if (tensor.content == 0) {
    unknown_.clear();
    append_cells(tensor, unknown_);
    return unknown_;
  }
  Known& known = known_[tensor.content % kKnown];
  if (known.content != tensor.content || known.dtype != tensor.dtype) {
    known.content = tensor.content;
    known.dtype = tensor.dtype;
    known.cells.clear();
    append_cells(tensor, known.cells);
  }
  return known.cells;
}

void StatisticRows::append_op(const Record& record, std::string& out) {
  const OpName& op = *record.op;
  if (op_ != &op) {
    op_ = &op;
    op_cells_.clear();
    append_cell(op.op_type, op_cells_);
    op_cells_.push_back(',');
    const RowForm& form = kForms[static_cast<std::size_t>(layout_.release())];
    append_cell(form.name_as_in_file ? layout_.names().name_in_files(op) : op.op_name, op_cells_);
  }
  out.append(op_cells_).push_back(',');
  append_number(layout_.names().shown_task(record), out);
}

void StatisticRows::append(const Record& record, const TensorRecord& tensor, std::string& out) {
  const RowForm& form = kForms[static_cast<std::size_t>(layout_.release())];
  append_op(record, out);
  out.append(",0,");
  append_number(tensor.timestamp_us, out);
  out.append(tensor.is_input ? ",input," : ",output,");
  append_number(tensor.slot, out);
  out.push_back(',');
  append_number(data_bytes(tensor), out);
  out.append(",").append(info(tensor.dtype).lower).append(",\"");
  append_shape(tensor.shape.values(), form.open, form.close, out);
  out.push_back('"');
  out.append(cells_of(tensor));
}

}  // namespace sonde
