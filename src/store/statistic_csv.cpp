#include "store/statistic_csv.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace sonde {
namespace {

void append_cell(std::string_view text, std::string& out) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
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

std::uint64_t data_bytes(const TensorRecord& tensor) {
  std::uint64_t bytes = info(tensor.dtype).item_bytes;
  for (const std::int64_t size : tensor.shape.values()) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

std::string category_text(const TensorRecord& tensor, Category category) {
  if (category == Category::md5) return tensor.md5;
  if (category == Category::sha1) return tensor.sha1;
  return text_of(tensor.statistics, category);
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

void append_statistic_row(const OpName& op, const TensorRecord& tensor, std::span<const Category> categories,
                          std::string& out) {
  append_cell(op.op_type, out);
  out.push_back(',');
  append_cell(op.full_name, out);
  fmt::format_to(std::back_inserter(out), ",0,0,{},{},{},{},{},\"{}\",", tensor.timestamp_us,
                 tensor.is_input ? "input" : "output", tensor.slot, data_bytes(tensor), info(tensor.dtype).lower,
                 shape_text(tensor.shape.values(), '[', ']'));
  for (const Category category : categories) {
    out.append(category_text(tensor, category)).push_back(',');
  }
  out.push_back('\n');
}

}  // namespace sonde
