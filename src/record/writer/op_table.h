// CANN's csv for every op, with its statistics (docs/format.md, "Tables of single ops").
#pragma once

#include <span>
#include <string>

#include "dump/journal/record.h"
#include "ground/stats/statistics.h"

namespace sonde {

// The columns, in CANN's fixed order, independent of the plan's.
class OpTableForm {
 public:
  // `quirks`: cells with the errors of CANN's own writer (Plan::sonde.acl_quirks).
  OpTableForm(std::span<const Category> categories, bool quirks);

  std::string header() const;  // with its newline
  // A tensor that was read. A tensor without statistics (a complex one) has the values `NA`.
  void append_row(const TensorRecord& tensor, std::string& out) const;

 private:
  std::string cell(const TensorRecord& tensor, Category category) const;

  std::vector<Category> columns_;  // in CANN's order, Count among them
  bool default_ = false;
  bool quirks_ = false;
};

}  // namespace sonde
