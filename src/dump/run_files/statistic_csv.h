// The text of statistic.csv, as each version of MindSpore writes it. RunFiles owns the file itself (run_files.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dump/journal/record.h"
#include "dump/layout/layout.h"
#include "ground/stats/statistics.h"

namespace sonde {

// The columns that every version has, before those of the categories.
inline constexpr std::string_view kStatisticColumns =
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape";

// One line, with its newline: the fixed columns, then one per category in the order given.
std::string statistic_header(std::span<const Category> categories);

// True if statistic.csv has a row of `tensor`.
bool has_statistic_row(const TensorEntry& tensor);

// Makes the rows of one run. Not synchronised.
class StatisticRows {
 public:
  StatisticRows(const Layout& layout, std::span<const Category> categories, bool low_precision);

  // Appends the row of `tensor`, one of `record`, to `out`, in the form of the layout. A name with a comma, a quote or a
  // newline is quoted, so that every row stays one row.
  void append(const Record& record, const TensorRecord& tensor, std::string& out);

 private:
  // The cells of the categories of a content. An output has them again as an input of the ops that read it.
  struct Known {
    std::uint64_t content = 0;
    DType dtype = DType::undefined;
    std::string cells;
  };
  static constexpr std::size_t kKnown = 1024;

  void append_op(const Record& record, std::string& out);
  const std::string& cells_of(const TensorRecord& tensor);
  void append_cells(const TensorRecord& tensor, std::string& out) const;

  const Layout layout_;
  const std::vector<Category> categories_;
  const bool low_precision_;
  std::vector<Known> known_;
  std::string unknown_;         // the cells of a tensor without content
  const OpName* op_ = nullptr;  // of the last row; names live as long as the run
  std::string op_cells_;        // its type and name
};

}  // namespace sonde
