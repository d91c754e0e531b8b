// The columns of the server's tables beside the members of the rows that fill them; contract/served_rows.h has them.
//
//   RowTable<ServedEdge> edges;
//   edges.add({.to_node = 3, .to_slot = 0, .parameter = "conv1.weight", .class_ = state});
//   return edges.table.response(request, generation);
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/members.h"
#include "face/server/answer_table.h"

namespace sonde::server {

template <typename Row, typename Value>
struct RowColumn {
  std::string_view name;
  Value Row::*at;
  ColumnType type;
};
template <typename Row, typename Value>
RowColumn(const char*, Value Row::*, ColumnType) -> RowColumn<Row, Value>;

template <typename Row>
struct StatisticsColumns {
  KnownStatistics Row::*at;
};
template <typename Row>  // Clang 14 does not deduce it of an aggregate
StatisticsColumns(KnownStatistics Row::*)->StatisticsColumns<Row>;

template <typename Row>
struct ColumnsOf;  // `each(visit)`: visit(column, ...) of the above; `is_row`

// A null for an empty optional.
template <typename Value>
void add_cell(AnswerColumn& column, const Value& value) {
  if constexpr (HasWords<Value>) {
    column.add(word_of(value));
  } else if constexpr (requires { value.has_value(); }) {
    value ? add_cell(column, *value) : column.add_null();
  } else if constexpr (std::convertible_to<Value, std::string_view>) {
    column.add(value);
  } else if constexpr (std::floating_point<Value>) {
    column.add_real(value);
  } else {
    column.add_number(value);
  }
}

// The members of a row that has neither statistics nor a shape.
template <typename Row, typename Value>
constexpr Member<Row, Value> member_of(const RowColumn<Row, Value>& column) {
  return {column.name, column.at};
}

// The answer of a table as JSON. `Row`: one with columns, or any JSON.
template <typename Row>
struct TableAnswer {
  std::uint64_t count = 0;              // of all rows that the filter accepts
  std::optional<std::uint64_t> offset;  // rows before the first one here; empty: all rows are here
  std::uint64_t generation = 0;
  std::string command;  // that gives the same rows; empty: none
  std::vector<Row> rows;
};

// A table whose rows are of one type.
template <typename Row>
class RowTable {
 public:
  RowTable() {
    ColumnsOf<Row>::each([&](const auto&... column) { (add_column(column), ...); });
  }
  void add(const Row& row) {
    auto next = columns_.begin();
    ColumnsOf<Row>::each([&](const auto&... column) { (put(row, column, next), ...); });
  }

  AnswerTable table;

 private:
  using Place = std::vector<AnswerColumn*>::iterator;

  template <typename Value>
  void add_column(const RowColumn<Row, Value>& column) {
    constexpr bool is_nullable = requires(const Value& value) { value.has_value(); };
    columns_.push_back(&table.add(column.name, column.type, is_nullable));
  }
  void add_column(const StatisticsColumns<Row>&) {
    for_each_statistic_member([&]<typename Value>(std::string_view name, std::optional<Value> KnownStatistics::*) {
      const ColumnType type = std::floating_point<Value> ? ColumnType::float64 : ColumnType::uint64;
      columns_.push_back(&table.add(name, type, true));
    });
  }

  template <typename Value>
  void put(const Row& row, const RowColumn<Row, Value>& column, Place& next) {
    add_cell(**next++, row.*column.at);
  }
  void put(const Row& row, const StatisticsColumns<Row>& columns, Place& next) {
    for_each_statistic(row.*columns.at, [&](std::string_view, const auto& value) { add_cell(**next++, value); });
  }

  std::vector<AnswerColumn*> columns_;
};

}  // namespace sonde::server

namespace sonde {

template <typename Row>
requires(server::ColumnsOf<Row>::is_row) struct Members<Row> {
  template <typename Visit>
  static constexpr auto each(const Visit& visit) {
    return server::ColumnsOf<Row>::each([&](const auto&... column) { return visit(server::member_of(column)...); });
  }
  static constexpr bool is_answer = false;
};
template <typename Row>
struct Members<server::TableAnswer<Row>> {
  using Answer = server::TableAnswer<Row>;
  template <typename Visit>
  static constexpr auto each(const Visit& visit) {
    return visit(Member{"count", &Answer::count}, Member{"offset", &Answer::offset, true},
                 Member{"generation", &Answer::generation}, Member{"command", &Answer::command, true},
                 Member{"rows", &Answer::rows});
  }
  static constexpr bool is_answer = false;
};

}  // namespace sonde
