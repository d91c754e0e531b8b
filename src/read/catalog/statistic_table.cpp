#include "read/catalog/statistic_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "dump/formats/cann_types.h"
#include "ground/base/parse_number.h"
#include "ground/base/text.h"
#include "ground/files/mapped_file.h"

namespace sonde {
namespace {

// Views into the line, or into `quoted`; valid until the next line.
struct Cells {
  std::vector<std::string_view> all;
  std::deque<std::string> quoted;  // cells that had quotes
};

bool split_quoted(std::string_view line, Cells& cells) {
  std::string cell;
  bool quoted = false;
  const auto add = [&] { cells.all.push_back(cells.quoted.emplace_back(std::move(cell))); };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cell.push_back(line[++i]);
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      add();
      cell.clear();
    } else {
      cell.push_back(c);
    }
  }
  add();
  return !quoted;
}

// The cells of one line; false if a quote is not closed. `""` inside quotes is a quote.
bool split_row(std::string_view line, Cells& cells) {
  cells.all.clear();
  cells.quoted.clear();
  while (true) {
    const std::size_t end = std::min(line.find(','), line.size());
    const std::string_view cell = line.substr(0, end);
    if (cell.find('"') != std::string_view::npos) return split_quoted(line, cells);
    cells.all.push_back(cell);
    if (end == line.size()) return true;
    line.remove_prefix(end + 1);
  }
}

bool parse_value(std::string_view text, std::optional<double>& out) {
  if (text.empty() || text == "null" || text == "NA" || text == "N/A") return true;
  if (text == "nan" || text == "-nan") {
    out = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  double value = 0;
  if (!parse_number(text, value)) {
    // Some readers report the "%g" of a denormal as out of range; strtod does not.
    char* end = nullptr;
    const std::string copy(text);
    value = std::strtod(copy.c_str(), &end);
    if (end != copy.c_str() + copy.size()) return false;
  }
  out = value;
  return true;
}

bool parse_count(std::string_view text, std::optional<std::uint64_t>& out) {
  if (text.empty() || text == "null" || text == "NA" || text == "N/A") return true;
  std::uint64_t value = 0;
  if (!parse_number(text, value)) return false;
  out = value;
  return true;
}

// "(2,3)", "[2,3]", "()", "(3,)".
bool parse_shape(std::string_view text, std::vector<std::int64_t>& out) {
  if (text.size() < 2) return false;
  const bool round = text.front() == '(' && text.back() == ')';
  if (!round && !(text.front() == '[' && text.back() == ']')) return false;
  for (std::string_view size : split(text.substr(1, text.size() - 2), ',')) {
    while (size.starts_with(' ')) size.remove_prefix(1);
    std::int64_t value = 0;
    if (!parse_number(size, value) || value < 0) return false;
    out.push_back(value);
  }
  return true;
}

using Setter = bool (*)(std::string_view, StatisticRow&);

struct ColumnInfo {
  std::string_view name;
  Setter set;
};

template <auto Member>
bool set_value(std::string_view text, StatisticRow& row) {
  return parse_value(text, row.statistics.*Member);
}
template <auto Member>
bool set_count(std::string_view text, StatisticRow& row) {
  return parse_count(text, row.statistics.*Member);
}
template <auto Member>
bool set_text(std::string_view text, StatisticRow& row) {
  row.*Member = text;
  return true;
}

// "null" if MindSpore cannot measure the tensor's type.
bool set_dtype(std::string_view text, StatisticRow& row) {
  row.dtype = dtype_from_name(text);
  return true;
}
bool set_side(std::string_view text, StatisticRow& row) {
  row.is_input = text == "input";
  return row.is_input || text == "output";
}
bool set_slot(std::string_view text, StatisticRow& row) { return parse_number(text, row.slot); }
bool set_time(std::string_view text, StatisticRow& row) { return parse_number(text, row.timestamp_us); }
bool set_shape(std::string_view text, StatisticRow& row) { return parse_shape(text, row.shape); }

// The words of msprobe's tables: those of MindSpore, of CANN, and ATB's `bf16`.
bool set_any_dtype(std::string_view text, StatisticRow& row) {
  constexpr std::array<std::pair<std::string_view, DType>, 6> kShort = {{{"bf16", DType::bfloat16},
                                                                         {"fp16", DType::float16},
                                                                         {"half", DType::float16},
                                                                         {"float", DType::float32},
                                                                         {"fp32", DType::float32},
                                                                         {"double", DType::float64}}};
  row.dtype = dtype_from_name(text);
  if (row.dtype == DType::undefined) row.dtype = dtype_of_cann_name(text);
  const std::string lower = lower_case(text);
  const auto found = std::ranges::find(kShort, lower, &std::pair<std::string_view, DType>::first);
  if (row.dtype == DType::undefined && found != kShort.end()) row.dtype = found->second;
  return true;
}
bool set_any_side(std::string_view text, StatisticRow& row) {
  const std::string lower = lower_case(text);
  row.is_input = lower == "input" || lower == "intensor";
  return row.is_input || lower == "output" || lower == "outtensor";
}
// "2", or with the name of the parameter "2_value".
bool set_named_slot(std::string_view text, StatisticRow& row) {
  return parse_number(text.substr(0, text.find('_')), row.slot);
}
// "(2,3)", "[2,3]", "2x3", "2 × 3", "2"; `-` for a scalar, `NA` if it is not known.
bool set_any_shape(std::string_view text, StatisticRow& row) {
  if (text.empty() || text == "-" || text == "NA" || text == "N/A") return true;
  if (text.front() == '(' || text.front() == '[') return parse_shape(text, row.shape);
  std::string listed;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_times = text.substr(i).starts_with("\xc3\x97");
    if (is_times) ++i;
    if (is_times || text[i] == 'x' || text[i] == 'X' || text[i] == '*') {
      listed += ',';
    } else if (text[i] != ' ') {
      listed += text[i];
    }
  }
  return parse_shape("(" + listed + ")", row.shape);
}

constexpr ColumnInfo kNegativeInf{"Negative Inf Count", set_count<&KnownStatistics::negative_inf_count>};
constexpr ColumnInfo kPositiveInf{"Positive Inf Count", set_count<&KnownStatistics::positive_inf_count>};

constexpr std::array kColumns = {
    ColumnInfo{"Op Type", set_text<&StatisticRow::op_type>},
    ColumnInfo{"Op Name", set_text<&StatisticRow::op_name>},
    ColumnInfo{"Timestamp", set_time},
    ColumnInfo{"IO", set_side},
    ColumnInfo{"Slot", set_slot},
    ColumnInfo{"Data Type", set_dtype},
    ColumnInfo{"Shape", set_shape},
    ColumnInfo{"Max Value", set_value<&KnownStatistics::max>},
    ColumnInfo{"Min Value", set_value<&KnownStatistics::min>},
    ColumnInfo{"Avg Value", set_value<&KnownStatistics::avg>},
    ColumnInfo{"L2Norm Value", set_value<&KnownStatistics::l2norm>},
    ColumnInfo{"Count", set_count<&KnownStatistics::count>},
    ColumnInfo{"Negative Zero Count", set_count<&KnownStatistics::negative_count>},
    ColumnInfo{"Positive Zero Count", set_count<&KnownStatistics::positive_count>},
    ColumnInfo{"NaN Count", set_count<&KnownStatistics::nan_count>},
    ColumnInfo{"Nan Count", set_count<&KnownStatistics::nan_count>},  // one state of 2.4
    kNegativeInf,
    kPositiveInf,
    ColumnInfo{"Zero Count", set_count<&KnownStatistics::zero_count>},
    ColumnInfo{"MD5", set_text<&StatisticRow::md5>},
    ColumnInfo{"SHA1", set_text<&StatisticRow::sha1>},
};

// msprobe's tables of kernels: MindSpore's columns, but `Input/Output`, `Format`, and CANN's types and shapes.
constexpr std::array kProbeColumns = {
    ColumnInfo{"Op Type", set_text<&StatisticRow::op_type>},
    ColumnInfo{"Op Name", set_text<&StatisticRow::op_name>},
    ColumnInfo{"Timestamp", set_time},
    ColumnInfo{"Input/Output", set_any_side},
    ColumnInfo{"Slot", set_slot},
    ColumnInfo{"Data Type", set_any_dtype},
    ColumnInfo{"Shape", set_any_shape},
    ColumnInfo{"Max Value", set_value<&KnownStatistics::max>},
    ColumnInfo{"Min Value", set_value<&KnownStatistics::min>},
    ColumnInfo{"Avg Value", set_value<&KnownStatistics::avg>},
    ColumnInfo{"L2Norm Value", set_value<&KnownStatistics::l2norm>},
    ColumnInfo{"l2norm", set_value<&KnownStatistics::l2norm>},
    ColumnInfo{"Count", set_count<&KnownStatistics::count>},
    ColumnInfo{"NaN Count", set_count<&KnownStatistics::nan_count>},
    ColumnInfo{"Nan Count", set_count<&KnownStatistics::nan_count>},
    kNegativeInf,
    kPositiveInf,
    ColumnInfo{"MD5 Value", set_text<&StatisticRow::md5>},
};

// msprobe's tables of ATB's operators; the device, the round and the path are in the directory too.
constexpr std::array kAtbColumns = {
    ColumnInfo{"Op Name", set_text<&StatisticRow::op_name>},
    ColumnInfo{"Op Type", set_text<&StatisticRow::op_type>},
    ColumnInfo{"Input/Output", set_any_side},
    ColumnInfo{"Index", set_named_slot},
    ColumnInfo{"Dtype", set_any_dtype},
    ColumnInfo{"Shape", set_any_shape},
    ColumnInfo{"Max", set_value<&KnownStatistics::max>},
    ColumnInfo{"Min", set_value<&KnownStatistics::min>},
    ColumnInfo{"Mean", set_value<&KnownStatistics::avg>},
    ColumnInfo{"Norm", set_value<&KnownStatistics::l2norm>},
};

// CANN's own words.
bool set_side_of_op(std::string_view text, StatisticRow& row) {
  row.is_input = text == "Input";
  return row.is_input || text == "Output";
}
bool set_type_of_op(std::string_view text, StatisticRow& row) {
  row.dtype = dtype_of_cann_name(text);
  return true;
}
// "2x3"; `-` for a scalar, `NA` for more dimensions than its writer counts.
bool set_shape_of_op(std::string_view text, StatisticRow& row) {
  if (text == "-" || text == "NA") return true;
  std::string listed(text);
  std::ranges::replace(listed, 'x', ',');
  return parse_shape("(" + listed + ")", row.shape);
}

constexpr std::array kOpColumns = {
    ColumnInfo{"Input/Output", set_side_of_op},
    ColumnInfo{"Index", set_slot},
    ColumnInfo{"Data Type", set_type_of_op},
    ColumnInfo{"Shape", set_shape_of_op},
    ColumnInfo{"Max Value", set_value<&KnownStatistics::max>},
    ColumnInfo{"Min Value", set_value<&KnownStatistics::min>},
    ColumnInfo{"Avg Value", set_value<&KnownStatistics::avg>},
    ColumnInfo{"Count", set_count<&KnownStatistics::count>},
    ColumnInfo{"Nan Count", set_count<&KnownStatistics::nan_count>},
    kNegativeInf,
    kPositiveInf,
    ColumnInfo{"l2norm", set_value<&KnownStatistics::l2norm>},
};

using Header = std::vector<const ColumnInfo*>;  // null: a skipped column

// False when a column of `needed` is missing.
bool parse_header(std::string_view line, std::span<const ColumnInfo> columns, std::span<const std::string_view> needed,
                  Header& header) {
  Cells cells;
  if (!split_row(line, cells)) return false;
  for (const std::string_view cell : cells.all) {
    const auto found = std::ranges::find(columns, cell, &ColumnInfo::name);
    header.push_back(found == columns.end() ? nullptr : &*found);
  }
  return std::ranges::all_of(needed, [&](std::string_view name) {
    return std::ranges::any_of(header, [&](const ColumnInfo* c) { return c != nullptr && c->name == name; });
  });
}

// If nothing could be computed, one of CANN's writers omits the count.
void add_forgotten_count(const Header& header, std::vector<std::string_view>& cells) {
  if (cells.size() + 1 != header.size() || cells.empty() || cells.back() != "NA") return;
  const auto count = std::ranges::find_if(header, [](const ColumnInfo* c) { return c && c->name == "Count"; });
  if (count != header.end()) cells.insert(cells.begin() + (count - header.begin()), "");
}

constexpr std::size_t kMostQuoted = 60;  // letters of a wrong cell

std::string_view expected_in(std::string_view column) {
  if (column == "IO") return "input or output";
  if (column == "Input/Output") return "Input or Output";
  if (column == "Shape") return "sizes such as (2,3) or 2x3";
  if (column == "Slot" || column == "Index" || column == "Timestamp" || column.ends_with("Count")) {
    return "a whole number, 0 or more";
  }
  return "a number";
}

// Empty if the row is valid, else the error.
std::string parse_row(std::string_view line, const Header& header, Cells& split_cells, StatisticRow& row) {
  if (!split_row(line, split_cells)) return "a quote is not closed";
  std::vector<std::string_view>& cells = split_cells.all;
  if (cells.size() == header.size() + 1 && cells.back().empty()) cells.pop_back();
  add_forgotten_count(header, cells);
  if (cells.size() != header.size()) {
    return fmt::format("found {} cells, expected {}, as in the header", cells.size(), header.size());
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (header[i] == nullptr || header[i]->set(cells[i], row)) continue;
    return fmt::format("column '{}': found '{}', expected {}", header[i]->name, cells[i].substr(0, kMostQuoted),
                       expected_in(header[i]->name));
  }
  return row.op_name.empty() ? "the op has no name" : "";
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// `first`: the start of every row.
StatisticTable parse_rows(std::string_view text, const Header& header, const StatisticRow& first) {
  StatisticTable table;
  Cells cells;
  std::size_t bad = 0;
  for (std::size_t number = 2; !text.empty(); ++number) {
    const bool is_whole = text.find('\n') != std::string_view::npos;
    const std::string_view line = take_line(text);
    if (line.empty()) continue;
    if (!is_whole) {
      table.is_torn = true;
      break;
    }
    StatisticRow row = first;
    const std::string wrong = parse_row(line, header, cells, row);
    if (wrong.empty()) {
      table.rows.push_back(std::move(row));
    } else if (++bad == 1) {
      table.problem = "line " + std::to_string(number) + ": " + wrong;
    }
  }
  if (bad > 1) table.problem += " (and " + std::to_string(bad - 1) + " more rows like it)";
  return table;
}

void skip_mark(std::string_view& text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
}

// The tables that are called statistic.csv: by the columns that each must have.
struct TableKind {
  std::string_view writer;
  std::span<const ColumnInfo> columns;
  std::array<std::string_view, 3> needed;
};
constexpr std::array<TableKind, 3> kKinds = {{{"MindSpore", kColumns, {"Op Name", "IO", "Slot"}},
                                              {"msprobe", kProbeColumns, {"Op Name", "Input/Output", "Slot"}},
                                              {"msprobe for ATB", kAtbColumns, {"Op Name", "Input/Output", "Index"}}}};

// Says which column is missing of the kind that has most of its columns.
std::string wrong_header(std::string_view line) {
  Cells cells;
  if (!split_row(line, cells)) return "line 1, the header: a quote is not closed";
  const auto has = [&](std::string_view name) { return std::ranges::find(cells.all, name) != cells.all.end(); };
  const auto shared = [&](const TableKind& kind) {
    return std::ranges::count_if(kind.columns, [&](const ColumnInfo& column) { return has(column.name); });
  };
  const TableKind& nearest = *std::ranges::max_element(kKinds, {}, shared);
  std::vector<std::string_view> missing;
  std::ranges::copy_if(nearest.needed, std::back_inserter(missing), [&](std::string_view name) { return !has(name); });
  return fmt::format("line 1, the header: found '{}', expected the columns {} of {}; missing: {}",
                     line.substr(0, 2 * kMostQuoted), fmt::join(nearest.needed, ", "), nearest.writer,
                     fmt::join(missing, ", "));
}

}  // namespace

Result<StatisticTable> parse_statistic_table(std::string_view text) {
  skip_mark(text);
  if (text.empty() ||
      (text.find('\n') == std::string_view::npos && text.starts_with("Op Type"))) {  // a run was killed in its header
    StatisticTable torn;
    torn.is_torn = true;
    return torn;
  }
  const std::string_view line = take_line(text);
  for (const TableKind& kind : kKinds) {
    Header header;
    if (parse_header(line, kind.columns, kind.needed, header)) return parse_rows(text, header, {});
  }
  return Error{ErrorCode::corrupt, wrong_header(line)};
}

Result<StatisticTable> read_statistic_table(const std::filesystem::path& file) {
  const Result<std::string> text = read_whole_file(file);
  if (!text) return text.error();
  return parse_statistic_table(*text);
}

Result<StatisticTable> parse_op_table(std::string_view text, const OpFileName& name) {
  skip_mark(text);
  Header header;
  const std::string_view line = take_line(text);
  if (!parse_header(line, kOpColumns, std::array<std::string_view, 2>{"Input/Output", "Index"}, header)) {
    return Error{
        ErrorCode::corrupt,
        fmt::format("line 1, the header: found '{}', expected the columns Input/Output and Index of an op's table",
                    line.substr(0, 2 * kMostQuoted))};
  }
  StatisticRow first;
  first.op_type = name.op_type;
  first.op_name = name.op_name;
  first.timestamp_us = name.timestamp_us;
  return parse_rows(text, header, first);
}

Result<StatisticTable> read_op_table(const std::filesystem::path& file, const OpFileName& name) {
  const Result<std::string> text = read_whole_file(file);
  if (!text) return text.error();
  return parse_op_table(*text, name);
}

}  // namespace sonde
