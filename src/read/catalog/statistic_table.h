// Tables of statistics, read row by row: statistic.csv of any version of MindSpore, and CANN's, one per op.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "dump/formats/file_names.h"
#include "read/catalog/catalog.h"
#include "sonde/result.h"

namespace sonde {

struct StatisticRow {
  std::string op_type, op_name;
  std::uint64_t timestamp_us = 0;
  bool is_input = false;
  std::uint32_t slot = 0;
  DType dtype = DType::undefined;
  std::vector<std::int64_t> shape;
  KnownStatistics statistics;
  std::string md5, sha1;
};

struct StatisticTable {
  std::vector<StatisticRow> rows;  // in file order
  std::string problem;             // the first bad row and the number of bad rows; empty if all are good
  bool is_torn = false;            // the last row lacks its newline: it may be cut off and is skipped
};
inline constexpr std::string_view kTornRow = "the last row breaks off; it is ignored";

// Columns are found by their names, in any order; unknown ones are skipped. Rows may end with a
// comma, shapes may have either kind of bracket, numbers may be `null` or `-nan`. Fails if there is
// no header with op, side and slot.
Result<StatisticTable> parse_statistic_table(std::string_view text);
Result<StatisticTable> read_statistic_table(const std::filesystem::path& file);

// The table of one op as CANN writes it; `name` identifies the op. Accepts both of its headers, cells that are empty or
// `NA`, and rows without their Count.
Result<StatisticTable> parse_op_table(std::string_view text, const OpFileName& name);
Result<StatisticTable> read_op_table(const std::filesystem::path& file, const OpFileName& name);

}  // namespace sonde
