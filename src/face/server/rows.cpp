#include "face/server/rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "contract/names.h"
#include "face/server/filter.h"
#include "ground/base/text.h"
#include "read/catalog/select.h"
#include "read/index/index_schema.h"
#include "read/measure/trend.h"

namespace sonde::server {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

const std::vector<std::string_view>& numbers_of(RowsOf of) {
  static const std::vector<std::string_view> of_tensors = statistic_names();
  static const std::vector<std::string_view> of_ops = {"nan_tensors", "inf_tensors", "not_measured", "tensors",
                                                       names::source_line};
  return of == RowsOf::tensors ? of_tensors : of_ops;
}

double number_of(const OpFact& op, std::string_view column) {
  if (column == "nan_tensors") return op.nan_tensors;
  if (column == "inf_tensors") return op.inf_tensors;
  if (column == "not_measured") return op.not_measured;
  return column == "tensors" ? op.recorded : op.line;
}

// The columns of tensors that a filter or an order looks at.
struct ColumnRow {
  std::optional<KnownStatistics> statistics;
  std::string_view dtype, shape, parameter;
};
constexpr auto kColumnRow =
    std::tuple(StatisticsField{&ColumnRow::statistics}, RowField{"dtype", &ColumnRow::dtype},
               RowField{"shape", &ColumnRow::shape}, RowField{"names.text", &ColumnRow::parameter});
constexpr const char* kOfAll =
    "FROM tensors LEFT JOIN texts AS names ON names.id=tensors.parameter ORDER BY op_id, position";

// The order of rows by one column. Unknown values come last; a NaN counts as larger than infinity.
struct SortKeys {
  std::string column;
  bool is_down = false, is_text = false;
  std::vector<double> numbers;  // of a text its number in `texts`, then its place among the sorted ones
  std::vector<bool> known;
  std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> texts;

  void add(std::optional<double> number) {
    known.push_back(number.has_value());
    numbers.push_back(number.value_or(0));
  }

  void add_text(std::string_view text) {
    auto at = texts.find(text);
    if (at == texts.end()) at = texts.emplace(text, static_cast<std::uint32_t>(texts.size())).first;
    add(at->second);
  }

  // A million rows have few different texts: these are compared once.
  void sort_texts() {
    std::vector<const std::pair<const std::string, std::uint32_t>*> sorted;
    for (const auto& text : texts) sorted.push_back(&text);
    std::ranges::sort(sorted, {}, [](const auto* text) -> const std::string& { return text->first; });
    std::vector<double> places(sorted.size());
    for (std::size_t i = 0; i < sorted.size(); ++i) places[sorted[i]->second] = static_cast<double>(i);
    for (double& number : numbers) number = places[static_cast<std::size_t>(number)];
  }

  bool before(std::size_t a, std::size_t b) const {
    if (known[a] != known[b]) return known[a];
    const double left = is_down ? numbers[b] : numbers[a], right = is_down ? numbers[a] : numbers[b];
    if (std::isnan(left) || std::isnan(right)) return !std::isnan(left) && std::isnan(right);
    return left < right;
  }
};

class RowSearch {
 public:
  RowSearch(Snapshot& snapshot, const Facts& facts, const RowQuery& query)
      : snapshot_(snapshot), facts_(facts), query_(query) {}

  Result<RowList> run() {
    Result<Filter> filter = Filter::parse(query_.filter, numbers_of(query_.of));
    if (!filter) return filter.error();
    filter_ = std::move(*filter);
    if (Status good = read_sort(); !good) return good.error();
    takes_name_.resize(facts_.names.size());
    for (std::size_t i = 0; i < takes_name_.size(); ++i) takes_name_[i] = filter_.takes_name(facts_.names[i]);
    if (Status good = read_sources(); !good) return good.error();
    if (query_.of == RowsOf::ops) {
      take_ops();
    } else if (Status good = take_tensors(); !good) {
      return good.error();
    }
    if (query_.is_gone()) return Error{ErrorCode::busy, "the question was withdrawn"};
    sort();
    return std::make_shared<const std::vector<std::uint32_t>>(std::move(rows_));
  }

 private:
  Status read_sort() {
    keys_.column = query_.sort;
    if (keys_.column.starts_with('-')) {
      keys_.is_down = true;
      keys_.column.erase(0, 1);
    }
    if (keys_.column.empty()) return {};
    std::vector<std::string_view> known = numbers_of(query_.of);
    if (query_.of == RowsOf::tensors) known.emplace_back(names::source_line);
    const bool is_number = std::ranges::find(known, keys_.column) != known.end();
    for (const std::string_view name : {names::op_name, names::op_type, "scope", "phase", "class", "step"})
      known.push_back(name);
    if (query_.of == RowsOf::tensors) {
      for (const std::string_view name : {"dtype", "shape", "parameter"}) known.push_back(name);
    }
    if (std::ranges::find(known, keys_.column) == known.end()) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("cannot sort by '{}'; known: {}", keys_.column, fmt::join(known, ", "))};
    }
    keys_.is_text = !is_number && keys_.column != "class" && keys_.column != "phase" && keys_.column != "step" &&
                    keys_.column != names::source_line;
    return {};
  }

  // The numbers of files that `source:` accepts with any line; with a line `file:line` is compared.
  Status read_sources() {
    if (filter_.sources.empty()) return {};
    Result<std::map<std::uint32_t, std::string>> files = snapshot_.source_files();
    if (!files) return files.error();
    files_ = std::move(*files);
    return {};
  }

  bool takes_source(const OpFact& op) const {
    if (filter_.sources.empty()) return true;
    const auto file = files_.find(op.source_file);
    if (file == files_.end()) return false;
    const std::string place = fmt::format("{}:{}", file->second, op.line);
    return std::ranges::all_of(filter_.sources, [&](const std::string& text) {
      const std::size_t at = place.find(text);
      // `train.py:2` is not line 29.
      return at != std::string::npos && (text.find(':') == std::string::npos || place.ends_with(text) ||
                                         (place[at + text.size()] < '0' || place[at + text.size()] > '9'));
    });
  }

  bool takes(const OpFact& op) const {
    const StepPlaceFact& place = facts_.steps[op.step];
    const CatalogRank& rank = snapshot_.frame().ranks[place.rank];
    return takes_name_[op.name] && (!filter_.phase || *filter_.phase == op.phase) &&
           query_.where.takes(rank, rank.steps[place.step]) && takes_source(op);
  }

  std::optional<double> number_key(const OpFact& op, State state) const {
    if (keys_.column == "class") return static_cast<double>(state);
    if (keys_.column == "phase") {
      return (op.flags & kIsParameter) != 0 ? std::nullopt : std::optional<double>(op.phase);
    }
    if (keys_.column == "step") return static_cast<double>(facts_.steps[op.step].number);
    return op.line == 0 ? std::nullopt : std::optional<double>(op.line);
  }
  const std::string& text_key(const OpFact& op) const {
    const OpName& name = facts_.names[op.name];
    return keys_.column == names::op_name ? name.op_name : keys_.column == names::op_type ? name.op_type : name.scope;
  }

  void take_ops() {
    for (std::uint32_t i = 0; i < facts_.ops.size() && !is_gone_at(i); ++i) {
      const OpFact& op = facts_.ops[i];
      if ((filter_.state && *filter_.state != op.state) || !takes(op)) continue;
      if (!std::ranges::all_of(filter_.numbers, [&](const auto& n) { return n.holds(number_of(op, n.column)); }))
        continue;
      rows_.push_back(i);
      if (keys_.column.empty()) continue;
      if (keys_.is_text) {
        keys_.add_text(text_key(op));
      } else {
        const auto& numbers = numbers_of(RowsOf::ops);
        const bool is_own = std::ranges::find(numbers, keys_.column) != numbers.end();
        keys_.add(is_own ? std::optional(number_of(op, keys_.column)) : number_key(op, op.state));
      }
    }
  }

  // Looked up now and then; run() says it once.
  bool is_gone_at(std::uint32_t row) const { return row % 1024 == 0 && query_.is_gone(); }

  bool needs_columns() const {
    const auto& numbers = numbers_of(RowsOf::tensors);
    return !filter_.numbers.empty() || !filter_.dtypes.empty() || !filter_.parameters.empty() ||
           std::ranges::find(numbers, keys_.column) != numbers.end() || keys_.column == "dtype" ||
           keys_.column == "shape" || keys_.column == "parameter";
  }

  Status take_tensors() {
    std::uint32_t at = 0;  // of `facts_.tensors`
    std::vector<bool> ops(facts_.ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) ops[i] = takes(facts_.ops[i]);
    const auto takes_fact = [&](const TensorFact& tensor) {
      return ops[tensor.op] && tensor.state != State::not_recorded &&
             (!filter_.is_input || *filter_.is_input == tensor.is_input) &&
             (!filter_.state || *filter_.state == tensor.state);
    };
    if (!needs_columns()) {
      for (; at < facts_.tensors.size(); ++at) {
        if (is_gone_at(at)) return {};
        if (takes_fact(facts_.tensors[at])) take_tensor(at);
      }
      return {};
    }
    const std::shared_ptr<const Judgement> judgement = snapshot_.judgement();
    return snapshot_.with_database([&](Database& database) -> Status {
      Result<Statement> rows = database.prepare(select_text(kColumnRow, kOfAll).c_str());
      if (!rows) return rows.error();
      for (; !is_gone_at(at) && rows->next() && at < facts_.tensors.size(); ++at) {
        if (takes_fact(facts_.tensors[at])) take_row(row_of<ColumnRow>(*rows, kColumnRow), at, *judgement);
      }
      return rows->failed() ? Status(database.error("cannot read it")) : Status();
    });
  }

  void take_tensor(std::uint32_t at) {
    rows_.push_back(at);
    if (keys_.column.empty()) return;
    const TensorFact& tensor = facts_.tensors[at];
    if (keys_.is_text) return keys_.add_text(text_key(facts_.ops[tensor.op]));
    keys_.add(number_key(facts_.ops[tensor.op], tensor.state));
  }

  void take_row(const ColumnRow& row, std::uint32_t at, const Judgement& judgement) {
    const TensorFact& tensor = facts_.tensors[at];
    const KnownStatistics statistics = judgement.statistics_of(tensor.op, tensor.position, row.statistics);
    for (const NumberCondition& condition : filter_.numbers) {
      const std::optional<double> value = statistic(statistics, condition.column);
      if (!value || !condition.holds(*value)) return;
    }
    if (!std::ranges::all_of(filter_.dtypes, [&](const auto& wanted) { return wanted == row.dtype; })) return;
    if (!std::ranges::all_of(filter_.parameters, [&](const auto& p) { return glob_matches(p, row.parameter); })) return;
    if (keys_.column == "dtype" || keys_.column == "shape" || keys_.column == "parameter") {
      rows_.push_back(at);
      return keys_.add_text(keys_.column == "dtype" ? row.dtype : keys_.column == "shape" ? row.shape : row.parameter);
    }
    const auto& numbers = numbers_of(RowsOf::tensors);
    if (std::ranges::find(numbers, keys_.column) == numbers.end()) return take_tensor(at);
    rows_.push_back(at);
    keys_.add(statistic(statistics, keys_.column));
  }

  void sort() {
    if (keys_.column.empty()) return;
    if (keys_.is_text) keys_.sort_texts();
    std::vector<std::uint32_t> order(rows_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return keys_.before(a, b); });
    for (std::uint32_t& place : order) place = rows_[place];
    rows_ = std::move(order);
  }

  Snapshot& snapshot_;
  const Facts& facts_;
  const RowQuery& query_;
  Filter filter_;
  SortKeys keys_;
  std::vector<bool> takes_name_;
  std::map<std::uint32_t, std::string> files_;
  std::vector<std::uint32_t> rows_;
};

}  // namespace

Result<RowList> find_rows(Snapshot& snapshot, const Facts& facts, const RowQuery& query) {
  if (RowList kept = snapshot.kept_rows(query.key, facts)) return kept;
  Result<RowList> rows = RowSearch(snapshot, facts, query).run();
  if (rows) snapshot.keep_rows(query.key, facts, *rows);
  return rows;
}

}  // namespace sonde::server
