// The columns of a SELECT beside the members that they fill.
//
//   struct Fact {
//     std::uint64_t op_id = 0;
//     std::optional<KnownStatistics> statistics;
//   };
//   constexpr auto kFact = std::tuple(RowField{"op_id", &Fact::op_id}, StatisticsField{&Fact::statistics});
//   …
//   Result<Statement> rows = database.prepare(select_text(kFact, "FROM tensors WHERE op_id>=?").c_str());
//   while (rows->next()) use(row_of<Fact>(*rows, kFact));
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "read/index/sqlite.h"
#include "sonde/known_statistics.h"

namespace sonde {

// `column` is an expression of SQL. A null leaves a text empty, a number 0.
template <typename Row, typename Value>
struct RowField {
  std::string_view column;
  Value Row::*at;
};
template <typename Row, typename Value>
RowField(const char*, Value Row::*) -> RowField<Row, Value>;

// The statistics and the flags of a row of `tensors`; empty: the tensor has none.
template <typename Row>
struct StatisticsField {
  std::optional<KnownStatistics> Row::*at;
};
template <typename Row>  // Clang 14 does not deduce it of an aggregate
StatisticsField(std::optional<KnownStatistics> Row::*)->StatisticsField<Row>;

inline constexpr int kStatisticsColumns = 12;  // eleven, and the flags
// "max, min, …, zero_count, tensors.flags"
std::string statistics_columns();
std::optional<KnownStatistics> statistics_in(const Statement& statement, int first);

namespace row_fields {

template <typename Value>
Value value_in(const Statement& statement, int column) {
  if constexpr (std::same_as<Value, std::string_view>) {
    return statement.text(column);
  } else if constexpr (std::same_as<Value, double>) {
    return statement.real(column);
  } else {
    return static_cast<Value>(statement.integer(column));
  }
}

template <typename Row, typename Value>
int take(const Statement& statement, int column, const RowField<Row, Value>& field, Row& row) {
  row.*field.at = value_in<Value>(statement, column);
  return column + 1;
}
template <typename Row, typename Value>
int take(const Statement& statement, int column, const RowField<Row, std::optional<Value>>& field, Row& row) {
  if (!statement.is_null(column)) row.*field.at = value_in<Value>(statement, column);
  return column + 1;
}
template <typename Row>
int take(const Statement& statement, int column, const StatisticsField<Row>& field, Row& row) {
  row.*field.at = statistics_in(statement, column);
  return column + kStatisticsColumns;
}

template <typename Row, typename Value>
std::string text_of(const RowField<Row, Value>& field) {
  return std::string(field.column);
}
template <typename Row>
std::string text_of(const StatisticsField<Row>&) {
  return statistics_columns();
}

}  // namespace row_fields

template <typename... Fields>
std::string select_text(const std::tuple<Fields...>& fields, std::string_view from) {
  std::string text;
  const auto add = [&](const auto& field) {
    text.append(text.empty() ? "SELECT " : ", ").append(row_fields::text_of(field));
  };
  std::apply([&](const auto&... field) { (add(field), ...); }, fields);
  return text.append(" ").append(from);
}

// --- rows of tables --------------------------------------------------------------------------------------------------

// `name`, `key` and `columns` of a row of contract/tables.h.
template <typename Row>
struct TableOf;

// "SELECT … FROM table" and `rest`: all columns.
template <typename Row>
std::string select_text(std::string_view rest = "") {
  return select_text(TableOf<Row>::columns, std::string("FROM ").append(TableOf<Row>::name).append(" ").append(rest));
}

namespace row_fields {

template <typename Value>
constexpr std::string_view type_of() {
  if (std::same_as<Value, std::string_view>) return " TEXT";
  return std::same_as<Value, double> ? " REAL" : " INTEGER";
}
template <typename Value>
constexpr std::string_view type_of(const Value*) {
  return type_of<Value>();
}
template <typename Value>
constexpr std::string_view type_of(const std::optional<Value>*) {
  return type_of<Value>();
}

// Calls take(name, type) for each column of the field.
template <typename Row, typename Value, typename Take>
void each_column(const RowField<Row, Value>& field, const Take& take) {
  take(field.column, type_of(static_cast<const Value*>(nullptr)));
}
template <typename Row, typename Take>
void each_column(const StatisticsField<Row>&, const Take& take) {
  for_each_statistic_member([&]<typename Value>(std::string_view name, std::optional<Value> KnownStatistics::*) {
    take(name, type_of<Value>());
  });
}

template <typename Value>
void set(Statement& statement, int parameter, const Value& value) {
  if constexpr (std::same_as<Value, std::string_view> || std::same_as<Value, double>) {
    statement.set(parameter, value);
  } else {
    statement.set(parameter, static_cast<std::int64_t>(value));
  }
}
template <typename Value>
void set(Statement& statement, int parameter, const std::optional<Value>& value) {
  value ? set(statement, parameter, *value) : statement.set_null(parameter);
}
template <typename Row, typename Value>
int put(Statement& statement, int parameter, const RowField<Row, Value>& field, const Row& row) {
  set(statement, parameter, row.*field.at);
  return parameter + 1;
}
template <typename Row>
int put(Statement& statement, int parameter, const StatisticsField<Row>& field, const Row& row) {
  static const KnownStatistics kNone;
  const auto& known = row.*field.at;
  for_each_statistic(known ? *known : kNone,
                     [&](std::string_view, const auto& value) { set(statement, parameter++, value); });
  return parameter;
}

}  // namespace row_fields

// Calls take(name, type) for each column of the table.
template <typename Row, typename Take>
void for_each_column(const Take& take) {
  std::apply([&](const auto&... field) { (row_fields::each_column(field, take), ...); }, TableOf<Row>::columns);
}

template <typename Row>
std::string create_text() {
  const std::string_view key = TableOf<Row>::key;
  const bool is_wide = key.find(',') != std::string_view::npos;
  std::string text;
  for_each_column<Row>([&](std::string_view name, std::string_view type) {
    text.append(text.empty() ? "" : ", ").append(name).append(type);
    if (name == key) text.append(" PRIMARY KEY");
  });
  if (is_wide) text.append(", PRIMARY KEY(").append(key).append(")");
  return std::string("CREATE TABLE ")
      .append(TableOf<Row>::name)
      .append("(")
      .append(text)
      .append(is_wide ? ") WITHOUT ROWID;\n" : ");\n");
}

template <typename Row>
std::string insert_text() {
  std::string marks;
  for_each_column<Row>([&](std::string_view, std::string_view) { marks.append(marks.empty() ? "?" : ",?"); });
  return std::string("INSERT INTO ").append(TableOf<Row>::name).append(" VALUES(").append(marks).append(")");
}

// Inserts `row` with a statement of insert_text.
template <typename Row>
bool write_row(Statement& statement, const Row& row) {
  int parameter = 0;
  const auto put = [&](const auto& field) { parameter = row_fields::put(statement, parameter, field, row); };
  std::apply([&](const auto&... field) { (put(field), ...); }, TableOf<Row>::columns);
  return statement.run();
}

// --- rows of any SELECT ----------------------------------------------------------------------------------------------

// Texts are valid until the next row. `column`: the first of these fields.
template <typename Row, typename... Fields>
Row row_of(const Statement& statement, const std::tuple<Fields...>& fields, int column = 0) {
  Row row;
  std::apply([&](const auto&... field) { ((column = row_fields::take(statement, column, field, row)), ...); }, fields);
  return row;
}
template <typename Row>
Row row_of(const Statement& statement) {
  return row_of<Row>(statement, TableOf<Row>::columns);
}

}  // namespace sonde
