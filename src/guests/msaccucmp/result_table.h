// ResultTable: the rows of a comparison and their CSV file, with the same cells as msaccucmp's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "guests/msaccucmp/outcome.h"

namespace sonde::msaccucmp {

inline constexpr std::string_view kNotAvailable = "NaN";

// The columns of the table.
struct Columns {
  bool sequence = false;  // -r, -s
  bool left_address = true, right_address = true;
  bool overflow = false;
  std::vector<std::string> algorithms;
};

struct Row {
  std::int64_t index = 0, sequence = 0;
  std::string op_type = std::string(kNotAvailable);
  std::string left, right;  // names of operators
  std::string left_type = std::string(kNotAvailable), right_type = std::string(kNotAvailable);
  std::string left_address = std::string(kNotAvailable), right_address = std::string(kNotAvailable);
  std::string tensor = std::string(kNotAvailable);  // "op:input:0"
  std::string shape = std::string(kNotAvailable);
  std::string overflow = std::string(kNotAvailable);
  std::vector<std::string> values;  // of the algorithms; empty: NaN each
  std::string reason;

  // Not shown. For FFTS+: the operator, the number of the tensor, and for an input the output that it comes from.
  struct Slice {
    std::string op, producer;
    std::int64_t number = 0, producer_output = 0;
    bool is_input = false;
  };
  std::optional<Slice> slice = std::nullopt;
};

std::string csv_text(const Columns& columns, const std::vector<Row>& rows);

// One line of cells, ended by CR LF; quoted as in RFC 4180. A cell that a spreadsheet would read as a formula gets an
// apostrophe before it; numbers do not. Control characters become `\x1b`, `\n`.
void add_csv_line(std::string& text, const std::vector<std::string>& cells);

// A result file with mode 0600, which replaces an older one; directories are made with mode 0700.
Outcome<bool> write_result(const std::filesystem::path& file, std::string_view text);

// "20260131120000", local time.
std::string now_digits();

}  // namespace sonde::msaccucmp
