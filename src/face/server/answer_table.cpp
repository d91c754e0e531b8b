#include "face/server/answer_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "face/report/text.h"
#include "face/server/arrow.h"
#include "face/server/row_table.h"
#include "ground/base/text.h"
#include "ground/contract/json.h"
#include "plan/config/nearest.h"

namespace sonde::server {
namespace {

bool accepts(const Request& request, std::string_view type) {
  return request.header("accept").find(type) != std::string_view::npos;
}

}  // namespace

void AnswerColumn::note_known(bool is_known) {
  if (is_known && known.empty()) return;
  if (known.empty()) known.assign(rows(), true);
  known.push_back(is_known);
}

std::size_t AnswerColumn::rows() const {
  switch (type) {
    case ColumnType::unique:
    case ColumnType::shape:
      return texts.size();
    case ColumnType::float64:
      return reals.size();
    default:
      return numbers.size();
  }
}

void AnswerColumn::add(std::string_view value) {
  note_known(true);
  if (type != ColumnType::text) {
    texts.emplace_back(value);
    return;
  }
  auto at = numbers_of_texts_.find(value);
  if (at == numbers_of_texts_.end()) {
    at = numbers_of_texts_.emplace(value, texts.size()).first;
    texts.emplace_back(value);
  }
  numbers.push_back(at->second);
}

void AnswerColumn::add_number(std::uint64_t value) {
  note_known(true);
  numbers.push_back(value);
}

void AnswerColumn::add_real(double value) {
  note_known(true);
  reals.push_back(value);
}

void AnswerColumn::add_null() {
  note_known(false);
  if (type == ColumnType::unique || type == ColumnType::shape) {
    texts.emplace_back();
  } else if (type == ColumnType::float64) {
    reals.push_back(0);
  } else {
    numbers.push_back(0);
  }
}

Json AnswerColumn::json(std::size_t row) const {
  if (!known.empty() && !known[row]) return nullptr;
  switch (type) {
    case ColumnType::text:
      return texts[numbers[row]];
    case ColumnType::unique:
      return texts[row];
    case ColumnType::shape: {
      std::string list = texts[row];
      list.front() = '[';
      list.back() = ']';
      return json_of_text(list);
    }
    case ColumnType::boolean:
      return numbers[row] != 0;
    case ColumnType::float64:
      return json_of(reals[row]);
    default:
      return numbers[row];
  }
}

std::string AnswerColumn::csv(std::size_t row) const {
  if (!known.empty() && !known[row]) return "";
  switch (type) {
    case ColumnType::text:
    case ColumnType::unique: {
      const std::string& text = type == ColumnType::text ? texts[numbers[row]] : texts[row];
      const bool computes = !text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos;
      return csv_cell(computes ? "'" + text : text);
    }
    case ColumnType::shape:
      return csv_cell(texts[row]);
    case ColumnType::float64:
      return fmt::format("{}", reals[row]);
    default:
      return std::to_string(numbers[row]);
  }
}

bool is_export(const Request& request) { return accepts(request, kCsvType) || accepts(request, kArrowType); }

AnswerColumn& AnswerTable::add(std::string_view name, ColumnType type, bool nullable) {
  AnswerColumn& column = columns.emplace_back();
  column.name = name;
  column.type = type;
  column.nullable = nullable;
  return column;
}

Status AnswerTable::choose(std::string_view names) {
  if (names.empty()) return {};
  std::deque<AnswerColumn> chosen;
  for (const std::string_view name : split(names, ',')) {
    const auto found = std::ranges::find(columns, name, &AnswerColumn::name);
    if (found == columns.end()) {
      std::vector<std::string_view> known;
      for (const AnswerColumn& column : columns) known.push_back(column.name);
      const std::vector<std::string> near = nearest(name, known, 3);
      return Error{ErrorCode::invalid_argument, fmt::format("there is no column '{}'{}{}", name,
                                                            near.empty() ? "" : "; nearest: ", fmt::join(near, ", "))};
    }
    chosen.push_back(*found);
  }
  columns = std::move(chosen);
  return {};
}

Response AnswerTable::response(const Request& request, std::uint64_t generation) const {
  Response response;
  const std::uint64_t all = counts_itself ? rows() : count;
  response.headers = {
      {"Sonde-Count", std::to_string(all)}, {"Sonde-Generation", std::to_string(generation)}, {"Vary", "Accept"}};
  if (accepts(request, kArrowType)) {
    response.type = kArrowType;
    response.body = arrow_stream(columns);
    return response;
  }
  if (accepts(request, kCsvType)) {
    response.type = kCsvType;
    for (const AnswerColumn& column : columns) response.body += (response.body.empty() ? "" : ",") + column.name;
    for (std::size_t row = 0; row < rows(); ++row) {
      response.body += '\n';
      for (const AnswerColumn& column : columns) {
        if (&column != &columns.front()) response.body += ',';
        response.body += column.csv(row);
      }
    }
    response.body += '\n';
    return response;
  }
  TableAnswer<Json> answer{all, offset, generation, command, {}};
  for (std::size_t row = 0; row < rows(); ++row) {
    Json& entry = answer.rows.emplace_back(Json::object());
    for (const AnswerColumn& column : columns) entry[column.name] = column.json(row);
  }
  response.body = text_of_json(json_of(answer));
  return response;
}

}  // namespace sonde::server
