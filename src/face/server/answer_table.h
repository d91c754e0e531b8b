// AnswerTable: rows of an answer, as JSON or as a stream of Arrow (arrow.h). src/face/server/openapi.json lists the columns of
// every table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "face/report/json.h"
#include "face/server/message.h"
#include "ground/base/text.h"
#include "sonde/known_statistics.h"

namespace sonde::server {

enum class ColumnType : std::uint8_t {
  text,    // repeated texts: a dictionary in Arrow
  unique,  // texts that are all different
  shape,   // "(2,3)" in Arrow, [2, 3] in JSON
  boolean,
  uint8,
  uint32,
  uint64,
  float64,
};

// Numbers in four bytes each, as long as all of them fit.
class ColumnNumbers {
 public:
  void push_back(std::uint64_t value) {
    if (wide_.empty() && value <= std::numeric_limits<std::uint32_t>::max()) {
      narrow_.push_back(static_cast<std::uint32_t>(value));
      return;
    }
    if (wide_.empty()) {
      wide_.assign(narrow_.begin(), narrow_.end());
      narrow_ = {};
    }
    wide_.push_back(value);
  }
  std::uint64_t operator[](std::size_t i) const { return wide_.empty() ? narrow_[i] : wide_[i]; }
  std::size_t size() const { return narrow_.size() + wide_.size(); }

 private:
  std::vector<std::uint32_t> narrow_;
  std::vector<std::uint64_t> wide_;
};

struct AnswerColumn {
  std::string name;
  ColumnType type = ColumnType::text;
  bool nullable = false;
  // One entry a row. Of the three vectors the type uses one: text has numbers of `texts`.
  ColumnNumbers numbers;
  std::vector<double> reals;
  std::vector<std::string> texts;  // of `text` the dictionary
  std::vector<bool> known;         // empty: all are

  void add(std::string_view value);
  void add_number(std::uint64_t value);
  void add_real(double value);
  void add_null();
  std::size_t rows() const;
  Json json(std::size_t row) const;
  // As `sonde` writes tables; a text that a spreadsheet would compute has `'` before it.
  std::string csv(std::size_t row) const;

 private:
  void note_known(bool is_known);
  std::unordered_map<std::string, std::uint64_t, TextHash, std::equal_to<>> numbers_of_texts_;
};

class AnswerTable {
 public:
  // References stay valid.
  AnswerColumn& add(std::string_view name, ColumnType type, bool nullable = false);
  // Keeps these columns in this order; fails on one that does not exist. Empty: all.
  Status choose(std::string_view names);

  std::deque<AnswerColumn> columns;
  std::uint64_t count = 0, offset = 0;  // of all rows that the filter accepts; rows before the first one here
  bool counts_itself = true;            // `count` is the number of rows
  std::string command;                  // that gives the same rows; empty: none

  std::size_t rows() const { return columns.empty() ? 0 : columns.front().rows(); }
  // As `request` accepts it.
  Response response(const Request& request, std::uint64_t generation) const;
};

inline constexpr std::string_view kCsvType = "text/csv";

// Asks for a table as a file, CSV or Arrow, which may have more rows.
bool is_export(const Request& request);

}  // namespace sonde::server
