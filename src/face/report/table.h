// Table: rows of text in aligned columns that fit the terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sonde {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
  bool may_shrink = false;  // long texts are cut in the middle when the terminal is narrow
  int drop = 0;             // if that is not enough: 1 is left out first, then 2, …; 0 never
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);

  void add(std::vector<std::string> cells);  // as many as there are columns
  bool empty() const { return rows_.empty(); }
  // A title line, then the rows. Columns with only empty cells are left out, and those for which there is no room: a
  // number is never cut. `width` 0: unlimited.
  std::string text(std::size_t width) const;

 private:
  std::vector<std::size_t> widths(std::size_t width) const;  // 0: left out
  bool has_numbers(std::size_t column) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sonde
