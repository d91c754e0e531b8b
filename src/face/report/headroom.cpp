#include "face/report/headroom.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "face/report/line_kind.h"
#include "face/report/table.h"
#include "face/report/text.h"

namespace sonde {
namespace {

constexpr std::size_t kMostAtAGlance = 30;
constexpr double kNotable = 0.01;  // of the elements

std::string number_text(const std::optional<double>& value) { return value ? fmt::format("{:.4g}", *value) : "-"; }
std::string powers_text(const std::optional<double>& value) { return value ? fmt::format("{:.1f}", *value) : "-"; }

double share(std::uint64_t count, std::uint64_t of) {
  return of > 0 ? static_cast<double>(count) / static_cast<double>(of) : 0;
}

std::string share_text(double of) {
  return of > 0 && of < 0.001 ? std::string("<0.1 %") : fmt::format("{:.{}f} %", 100 * of, of < 0.0995 ? 1 : 0);
}

// "2 % over, 0.3 % to 0", or the headroom where nothing is lost.
std::string cell_text(const HeadroomOf& as, std::uint64_t elements) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (as.overflows) {
    add(as.overflow_count ? share_text(share(*as.overflow_count, elements)) + " over" : "over");
  }
  if (as.underflow_count.value_or(0) > 0) add(share_text(share(*as.underflow_count, elements)) + " to 0");
  if (text.empty() && !as.underflow_count) return as.headroom ? powers_text(as.headroom) + " above" : "?";
  if (!text.empty()) return text;
  return as.headroom ? powers_text(as.headroom) : "fits";
}

std::string line_text(const HeadroomTensor& row) {
  if (row.source_file.empty()) return "";
  return fmt::format("{}:{}", std::filesystem::path(row.source_file).filename().string(), row.source_line);
}

std::vector<std::string> cells_of(const HeadroomTensor& row) {
  std::vector<std::string> cells = {row.op_name,
                                    fmt::format("{}.{}", word_of(row.side), row.slot),
                                    row.dtype,
                                    row.infinite_count > 0 ? std::to_string(row.infinite_count) : "",
                                    number_text(row.max_abs),
                                    number_text(row.least_abs),
                                    powers_text(row.headroom),
                                    std::to_string(row.step)};
  for (const HeadroomOf& as : row.as_dtypes) cells.push_back(cell_text(as, row.elements));
  cells.push_back(line_text(row));
  return cells;
}

// Rows that differ in the number at the end of the operator's name alone.
struct EqualRows {
  std::vector<std::string> cells;
  std::size_t count = 0;
};

std::vector<EqualRows> rows_of(const HeadroomReport& report, bool all) {
  const auto without_number = [](const std::string& name) {
    return name.substr(0, name.find_last_not_of("0123456789") + 1);
  };
  std::vector<EqualRows> rows;
  for (const HeadroomTensor& tensor : report.tensors) {
    std::vector<std::string> cells = cells_of(tensor);
    const auto is_equal = [&](const EqualRows& last) {
      return without_number(last.cells.front()) == without_number(cells.front()) &&
             std::ranges::equal(std::span(last.cells).subspan(1), std::span(cells).subspan(1));
    };
    if (all || rows.empty() || !is_equal(rows.back())) rows.push_back({std::move(cells), 0});
    ++rows.back().count;
  }
  return rows;
}

Table table_of(const HeadroomReport& report, std::span<EqualRows> rows) {
  std::vector<Column> columns = {{"op", Align::left, true},
                                 {"slot"},
                                 {"dtype"},
                                 {"inf", Align::right, false, 6},
                                 {"largest", Align::right},
                                 {"least", Align::right, false, 4},
                                 {"headroom", Align::right},
                                 {"step", Align::right, false, 3}};
  for (const HeadroomOf& as : report.tensors.front().as_dtypes) columns.push_back({as.dtype, Align::right});
  columns.push_back({"line", Align::left, false, 1});
  Table table(std::move(columns));
  for (EqualRows& row : rows) {
    if (row.count > 1) row.cells.front() += fmt::format(" × {}", row.count);
    table.add(std::move(row.cells));
  }
  return table;
}

// "float16: 2 of 40 tensors overflow, 3 lose more than 1 % of their elements to 0".
std::string sum_text(const HeadroomReport& report, std::size_t type) {
  std::size_t over = 0, lost = 0, unknown = 0;
  for (const HeadroomTensor& row : report.tensors) {
    const HeadroomOf& as = row.as_dtypes[type];
    over += as.overflows;
    lost += share(as.underflow_count.value_or(0), row.elements) > kNotable;
    unknown += !as.underflow_count;
  }
  std::string text = fmt::format("{}: {} of {} overflow, {} lose more than 1 % of their elements to 0",
                                 report.tensors.front().as_dtypes[type].dtype, over,
                                 count_text(report.tensors.size(), "tensor"), lost);
  if (unknown > 0) text += fmt::format(", of {} statistics do not show it", unknown);
  return marked(over > 0 ? LineKind::bad : lost > 0 ? LineKind::doubt : LineKind::good, text) + "\n";
}

}  // namespace

std::string text_of(const HeadroomReport& report, bool all, std::size_t width) {
  if (report.tensors.empty()) return "";
  std::vector<EqualRows> rows = rows_of(report, all);
  const std::size_t shown = all ? rows.size() : std::min(kMostAtAGlance, rows.size());
  std::string text = table_of(report, std::span(rows).first(shown)).text(width);
  if (shown < rows.size()) text += fmt::format("and {} more: --all\n", count_text(rows.size() - shown, "row"));
  text += "\n";
  for (std::size_t type = 0; type < report.tensors.front().as_dtypes.size(); ++type) text += sum_text(report, type);
  return text;
}

}  // namespace sonde
