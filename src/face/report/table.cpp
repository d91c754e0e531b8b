#include "face/report/table.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "face/report/text.h"

namespace sonde {
namespace {

constexpr std::size_t kGap = 2;
constexpr int kDrops = 9;
constexpr std::size_t kComfortable = 24;  // columns are first cut to this,
constexpr std::size_t kNarrowest = 12;    // then, after others are left out, to this,
constexpr std::size_t kLeast = 5;         // and to this if nothing else helps

void append_cell(const std::string& cell, std::size_t width, Align align, bool last, std::string& out) {
  const std::string text = shortened(cell, width);
  const std::size_t missing = width - std::min(width, display_width(text));
  if (align == Align::right) out.append(missing, ' ');
  out.append(text);
  if (align == Align::left && !last) out.append(missing, ' ');
}

std::size_t total(const std::vector<std::size_t>& widths) {
  std::size_t sum = 0;
  for (const std::size_t width : widths) sum += width == 0 ? 0 : width + (sum > 0 ? kGap : 0);
  return sum;
}

// Shortens the widest column again and again; the first one, of names, to no less than `name`.
void shrink(const std::vector<Column>& columns, std::size_t narrowest, std::size_t name, std::size_t width,
            std::vector<std::size_t>& widths) {
  for (std::size_t sum = total(widths); sum > width; --sum) {
    std::size_t widest = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!columns[i].may_shrink || widths[i] <= (i == 0 ? name : narrowest)) continue;
      if (widest == columns.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == columns.size()) return;
    --widths[widest];
  }
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(cell);
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths(std::size_t width) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    for (const auto& row : rows_) widths[i] = std::max(widths[i], display_width(row[i]));
    if (widths[i] > 0) widths[i] = std::max(widths[i], display_width(columns_[i].title));
  }
  if (width == 0) return widths;
  const std::size_t name = std::max(kComfortable, width * 2 / 5);
  shrink(columns_, kComfortable, name, width, widths);
  for (int drop = 1; drop <= kDrops && total(widths) > width; ++drop) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].drop == drop) widths[i] = 0;
    }
  }
  shrink(columns_, kNarrowest, kNarrowest, width, widths);
  if (total(widths) <= width) return widths;
  std::vector<Column> words = columns_;  // then all columns of words are cut, and those beyond the edge left out
  for (std::size_t i = 0; i < words.size(); ++i) words[i].may_shrink = !has_numbers(i);
  shrink(words, kNarrowest, kNarrowest, width, widths);
  for (std::size_t i = widths.size(); i-- > 1 && total(widths) > width;) widths[i] = 0;
  shrink(words, kLeast, kLeast, width, widths);
  return widths;
}

// Of numbers, sizes or times: half of one would be another one.
bool Table::has_numbers(std::size_t column) const {
  return std::ranges::all_of(rows_, [&](const std::vector<std::string>& row) {
    const std::string& cell = row[column];
    return cell.empty() || std::string_view("0123456789+-.").find(cell[0]) != std::string_view::npos || cell == "nan" ||
           cell == "inf";
  });
}

std::string Table::text(std::size_t width) const {
  const std::vector<std::size_t> column_widths = widths(width);
  std::size_t last = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (column_widths[i] > 0) last = i;
  }
  std::string out;
  const auto append_row = [&](auto&& cell_of) {
    bool first = true;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (column_widths[i] == 0) continue;
      if (!first) out.append(kGap, ' ');
      first = false;
      append_cell(cell_of(i), column_widths[i], columns_[i].align, i == last, out);
    }
    while (out.ends_with(' ')) out.pop_back();
    out.push_back('\n');
  };
  append_row([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) {
    append_row([&](std::size_t i) -> const std::string& { return row[i]; });
  }
  return out;
}

}  // namespace sonde
