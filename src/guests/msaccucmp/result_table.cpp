#include "guests/msaccucmp/result_table.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "ground/files/files.h"
#include "plan/config/printable.h"

namespace sonde::msaccucmp {
namespace {

bool is_numeric_cell(const std::string& cell) {
  char* end = nullptr;
  std::strtod(cell.c_str(), &end);
  return end != cell.c_str() && *end == '\0';
}

// The first characters of formulas in spreadsheets, also in full width.
bool starts_formula(std::string_view text) {
  constexpr std::string_view kWide[] = {"\uff1d", "\uff0b", "\uff0d"};
  if (text.empty()) return false;
  if (std::string_view("=+-@%").find(text[0]) != std::string_view::npos) return true;
  for (const std::string_view wide : kWide) {
    if (text.starts_with(wide)) return true;
  }
  return false;
}

bool is_formula(const std::string& cell) {
  if (cell.empty() || is_numeric_cell(cell)) return false;
  if (starts_formula(cell)) return true;
  for (std::size_t at = cell.find(';'); at != std::string::npos; at = cell.find(';', at + 1)) {
    if (starts_formula(std::string_view(cell).substr(at + 1))) return true;
  }
  return false;
}

std::vector<std::string> header(const Columns& columns) {
  std::vector<std::string> cells = {"Index"};
  if (columns.sequence) cells.emplace_back("OpSequence");
  cells.insert(cells.end(), {"OpType", "NPUDump", "DataType"});
  if (columns.left_address) cells.emplace_back("Address");
  cells.insert(cells.end(), {"GroundTruth", "DataType"});
  if (columns.right_address) cells.emplace_back("Address");
  cells.insert(cells.end(), {"TensorIndex", "Shape"});
  if (columns.overflow) cells.emplace_back("OverFlow");
  cells.insert(cells.end(), columns.algorithms.begin(), columns.algorithms.end());
  cells.emplace_back("CompareFailReason");
  return cells;
}

std::vector<std::string> cells_of(const Columns& columns, const Row& row) {
  std::vector<std::string> cells = {fmt::format("{}", row.index)};
  if (columns.sequence) cells.push_back(fmt::format("{}", row.sequence));
  cells.insert(cells.end(), {row.op_type, row.left, row.left_type});
  if (columns.left_address) cells.push_back(row.left_address);
  cells.insert(cells.end(), {row.right, row.right_type});
  if (columns.right_address) cells.push_back(row.right_address);
  cells.insert(cells.end(), {row.tensor, row.shape});
  if (columns.overflow) cells.push_back(row.overflow);
  for (std::size_t i = 0; i < columns.algorithms.size(); ++i) {
    cells.push_back(i < row.values.size() ? row.values[i] : std::string(kNotAvailable));
  }
  cells.push_back(row.reason);
  return cells;
}

}  // namespace

void add_csv_line(std::string& text, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) text += ',';
    const std::string cell = (is_formula(cells[i]) ? "'" : "") + printable(cells[i]);
    if (cell.find_first_of(",\"") == std::string::npos) {
      text += cell;
      continue;
    }
    text += '"';
    for (const char c : cell) text.append(c == '"' ? 2 : 1, c);
    text += '"';
  }
  text += "\r\n";
}

std::string csv_text(const Columns& columns, const std::vector<Row>& rows) {
  std::string text;
  add_csv_line(text, header(columns));
  for (const Row& row : rows) add_csv_line(text, cells_of(columns, row));
  return text;
}

Outcome<bool> write_result(const std::filesystem::path& file, std::string_view text) {
  const auto failed = [&](std::string_view what, int number) {
    return Failure{Code::cannot_write, fmt::format("cannot {} '{}': {}", what, file.string(), std::strerror(number))};
  };
  if (const Status made = make_directories(file.parent_path()); !made) {
    return Failure{Code::cannot_write, made.error().message};
  }
  std::error_code ignored;
  std::filesystem::remove(file, ignored);  // also a link
  const Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return failed("make", errno);
  if (const int number = write_all(fd.get(), text.data(), text.size()); number != 0) return failed("write", number);
  return true;
}

std::string now_digits() { return fmt::format("{:%Y%m%d%H%M%S}", fmt::localtime(std::time(nullptr))); }

}  // namespace sonde::msaccucmp
