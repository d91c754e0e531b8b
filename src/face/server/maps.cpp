// Maps over the steps: the health of scopes, the norms of gradients, the statistics of one tensor.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <unordered_map>

#include "contract/served_rows.h"
#include "face/report/catalog_text.h"
#include "face/server/ask.h"
#include "face/server/limits.h"
#include "face/server/rows.h"
#include "read/index/index_schema.h"

namespace sonde::server {
namespace {

// Steps become columns, several to one where there are more than `most`.
class StepColumns {
 public:
  StepColumns(std::set<std::uint64_t> steps, std::uint64_t most) : steps_(steps.begin(), steps.end()) {
    each_ = most == 0 ? 1 : std::max<std::size_t>(1, (steps_.size() + most - 1) / most);
  }
  std::size_t column_of(std::uint64_t step) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(steps_, step) - steps_.begin()) / each_;
  }
  bool contains(std::uint64_t step) const { return std::ranges::binary_search(steps_, step); }
  std::uint64_t first_of(std::size_t column) const { return steps_[column * each_]; }
  std::uint64_t last_of(std::size_t column) const { return steps_[std::min(steps_.size(), (column + 1) * each_) - 1]; }

 private:
  std::vector<std::uint64_t> steps_;
  std::size_t each_ = 1;
};

StepColumns columns_of(const Snapshot& snapshot, const Where& where, std::uint64_t most) {
  std::set<std::uint64_t> steps;
  for (const CatalogRank& rank : snapshot.frame().ranks) {
    for (const CatalogStep& step : rank.steps) {
      if (where.takes(rank, step)) steps.insert(step.id.number);
    }
  }
  return {std::move(steps), most};
}

// The row of each name of an op: the part of its scope below `under`, or the op itself.
class HealthRows {
 public:
  HealthRows(const Facts& facts, bool by_op, std::string under)
      : facts_(facts), by_op_(by_op), under_(std::move(under)), row_of_name_(facts.names.size(), kUnset) {}

  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t row_of(const OpFact& op) {
    std::size_t& row = row_of_name_[op.name];
    if (row == kUnset) row = find(op);
    return row;
  }
  const std::string& name(std::size_t row) const { return names_[row]; }
  bool has_children(std::size_t row) const { return is_scope_[row]; }
  std::size_t size() const { return names_.size(); }

 private:
  static constexpr std::size_t kUnset = ~std::size_t{0} - 1;

  std::size_t find(const OpFact& op) {
    const std::string_view scope = shown_scope(facts_, op);
    const bool is_below = under_.empty() || scope == under_ || scope.starts_with(under_ + "/");
    if (!is_below) return kNone;
    if (by_op_ || scope == under_) return number_of(facts_.names[op.name].op_name, false);
    const std::size_t begin = under_.empty() ? 0 : under_.size() + 1;
    const std::size_t end = scope.find('/', begin);
    return number_of(std::string(scope.substr(0, end)), true);
  }
  std::size_t number_of(const std::string& name, bool is_scope) {
    const auto [at, is_new] = numbers_.try_emplace((is_scope ? "s" : "o") + name, names_.size());
    if (is_new) {
      names_.push_back(name);
      is_scope_.push_back(is_scope);
    }
    return at->second;
  }

  const Facts& facts_;
  bool by_op_;
  std::string under_;
  std::vector<std::size_t> row_of_name_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::string> names_;
  std::vector<bool> is_scope_;
};

// The ops that may be in a row below `under`, in the order of the run: a level of a large dump needs few of all.
std::vector<std::uint32_t> ops_below(const Facts& facts, const std::string& under) {
  std::vector<std::uint32_t> ids;
  if (under.empty() || under == kParameterScope) {
    ids.resize(facts.ops.size());
    std::iota(ids.begin(), ids.end(), 0U);
    return ids;
  }
  for (const OpName& name : facts.names) {
    if (!name.scope.starts_with(under)) continue;
    const std::span<const std::uint32_t> named = facts.ops_named(name.op_name);
    ids.insert(ids.end(), named.begin(), named.end());
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());  // names of several types
  return ids;
}

struct HealthCell {
  State state = State::not_recorded;
  bool any = false;
  std::uint32_t ops = 0, tensors = 0, nan_tensors = 0, inf_tensors = 0, not_measured = 0;
  std::uint32_t worst = 0;  // op

  void add(const OpFact& op, std::uint32_t number) {
    if (!any || op.state > state) worst = number;
    any = true;
    state = std::max(state, op.state);
    ++ops;
    tensors += op.recorded;
    nan_tensors += op.nan_tensors;
    inf_tensors += op.inf_tensors;
    not_measured += op.not_measured;
  }
};

// Row, rank, graph and column of a cell, in the order of the answer.
using CellPlace = std::tuple<std::size_t, std::uint32_t, std::uint32_t, std::size_t>;

// The cells of a health map: a number in place of a tuple, since a map of operators has as many cells as the run had calls.
class HealthCells {
 public:
  HealthCells(const Snapshot& snapshot, const Facts& facts, const Where& where, const StepColumns& columns)
      : place_of_step_(facts.steps.size(), kNone) {
    std::map<CellPlace, std::uint32_t> numbers;  // the row is 0
    const auto place_of = [&](const StepPlaceFact& step) {
      return CellPlace(0, step.rank, step.graph, columns.column_of(step.number));
    };
    const auto takes = [&](const StepPlaceFact& step) {
      const CatalogRank& rank = snapshot.frame().ranks[step.rank];
      return where.takes(rank, rank.steps[step.step]) && columns.contains(step.number);
    };
    for (const StepPlaceFact& step : facts.steps) {
      if (takes(step)) numbers.try_emplace(place_of(step));
    }
    for (auto& [place, number] : numbers) {
      number = static_cast<std::uint32_t>(places_.size());
      places_.push_back(place);
    }
    for (std::size_t i = 0; i < facts.steps.size(); ++i) {
      if (takes(facts.steps[i])) place_of_step_[i] = numbers.at(place_of(facts.steps[i]));
    }
  }

  bool takes(const OpFact& op) const { return place_of_step_[op.step] != kNone; }
  void add(std::size_t row, const OpFact& op, std::uint32_t number) {
    cells_[std::uint64_t{row} << 32U | place_of_step_[op.step]].add(op, number);
  }
  // Calls `see` with the place and the cell of each, in the order of the answer.
  template <typename See>
  void each(const See& see) const {
    std::vector<const std::pair<const std::uint64_t, HealthCell>*> sorted;
    sorted.reserve(cells_.size());
    for (const auto& cell : cells_) sorted.push_back(&cell);
    std::ranges::sort(sorted, {}, [](const auto* cell) { return cell->first; });
    for (const auto* cell : sorted) {
      CellPlace place = places_[cell->first & 0xffffffffU];
      std::get<0>(place) = cell->first >> 32U;
      see(place, cell->second);
    }
  }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  std::vector<std::uint32_t> place_of_step_;
  std::vector<CellPlace> places_;
  std::unordered_map<std::uint64_t, HealthCell> cells_;
};

// `name_row` fills in what is the row's.
void add_health(const Snapshot& snapshot, const Facts& facts, const StepColumns& columns, const HealthCells& cells,
                const std::function<void(std::size_t, ServedHealth&)>& name_row, RowTable<ServedHealth>& table) {
  cells.each([&](const CellPlace& place, const HealthCell& cell) {
    const auto& [row, rank, graph, column] = place;
    const OpFact& worst = facts.ops[cell.worst];
    ServedHealth one = {.row = {},
                        .row_number = static_cast<std::uint32_t>(row),
                        .rank = rank_text(snapshot.frame().ranks[rank]),
                        .graph = graph,
                        .column = static_cast<std::uint32_t>(column),
                        .first_step = columns.first_of(column),
                        .last_step = columns.last_of(column),
                        .class_ = cell.state,
                        .ops = cell.ops,
                        .tensors = cell.tensors,
                        .nan_tensors = cell.nan_tensors,
                        .inf_tensors = cell.inf_tensors,
                        .not_measured = cell.not_measured,
                        .worst_op = facts.names[worst.name].op_name,
                        .worst_step = facts.steps[worst.step].number,
                        .has_children = false,
                        .row_count = 0};
    name_row(row, one);
    table.add(std::move(one));
  });
}

// The rows that a map shows.
struct RowWindow {
  std::uint64_t first = 0, most = 0;  // 0: all
  bool contains(std::uint64_t row) const { return row >= first && (most == 0 || row - first < most); }
};

// A row for each rank, in the columns of the rank that the question names.
void add_health_of_ranks(const Snapshot& snapshot, const Facts& facts, Where where, const StepColumns& columns,
                         HealthRows below, const RowWindow& window, RowTable<ServedHealth>& table) {
  where.rank.reset();
  HealthCells cells(snapshot, facts, where, columns);
  for (std::uint32_t id = 0; id < facts.ops.size(); ++id) {
    const OpFact& op = facts.ops[id];
    const std::uint32_t rank = facts.steps[op.step].rank;
    if (window.contains(rank) && cells.takes(op) && below.row_of(op) != HealthRows::kNone) cells.add(rank, op, id);
  }
  const auto name_row = [&](std::size_t, ServedHealth& one) {
    one.row = one.rank;
    one.has_children = true;
    one.row_count = static_cast<std::uint32_t>(snapshot.frame().ranks.size());
  };
  add_health(snapshot, facts, columns, cells, name_row, table);
}

struct GradientRow {
  std::string parameter;
  std::uint64_t op = 0;
  std::optional<double> l2norm;
  State state = State::not_recorded;
};

// Gradients by their parameters: outputs of the backward pass that are called a parameter's, else tensors named `….grad`.
// `where`: of others only those that lie between its ops.
Result<std::vector<GradientRow>> gradient_rows(Snapshot& snapshot, const Facts& facts, const Where& where) {
  std::uint64_t first = facts.ops.size(), end = 0;
  for (std::uint64_t op = 0; op < facts.ops.size(); ++op) {
    const StepPlaceFact& step = facts.steps[facts.ops[op].step];
    if (!where.takes(snapshot.frame().ranks[step.rank])) continue;
    first = std::min(first, op);
    end = op + 1;
  }
  std::vector<GradientRow> rows;
  const Status read = snapshot.with_database([&](Database& database) -> Status {
    Result<Statement> row = database.prepare(
        "SELECT tensors.op_id, position, names.text, l2norm, tensors.flags, op_names.op_name FROM tensors "
        "CROSS JOIN ops ON ops.id=tensors.op_id CROSS JOIN op_names ON op_names.id=ops.name_id "
        "LEFT JOIN texts AS names ON names.id=tensors.parameter "
        "WHERE tensors.op_id>=? AND tensors.op_id<? AND NOT is_input AND (names.text LIKE '%.grad' OR names.text LIKE "
        "'Gradients/%' OR op_names.op_name LIKE "
        "'%.grad') ORDER BY tensors.op_id, position");
    if (!row) return row.error();
    row->set(0, first);
    row->set(1, end);
    while (row->next()) {
      GradientRow& gradient = rows.emplace_back();
      gradient.op = row->number(0);
      gradient.parameter = row->is_null(2) ? row->text(5) : row->text(2);
      const auto flags = static_cast<std::uint32_t>(row->integer(4));
      constexpr std::uint32_t kNormKnown = kFirstKnown << 3U;
      if ((flags & kHasStatistics) != 0 && (flags & kNormKnown) != 0) {
        gradient.l2norm = row->is_null(3) ? std::numeric_limits<double>::quiet_NaN() : row->real(3);
      }
      gradient.state = facts.tensors[facts.ops[gradient.op].first_tensor + row->number(1)].state;
    }
    return row->failed() ? Status(database.error("cannot read it")) : Status();
  });
  if (!read) return read.error();
  return rows;
}

struct GradientCell {
  std::optional<double> l2norm;
  State state = State::not_recorded;
  void add(const GradientRow& row) {
    const bool is_larger = row.l2norm && (!l2norm || !(*row.l2norm <= *l2norm));  // a NaN is the largest
    if (is_larger && !(l2norm && std::isnan(*l2norm))) l2norm = row.l2norm;
    state = std::max(state, row.state);
  }
};

}  // namespace

Result<Response> health(Ask& ask) {
  const Where where = Where::of(ask.parameters, "steps");
  const std::string by = ask.parameters.word("by", "scope", {"scope", "op", "rank"});
  const std::string under = ask.parameters.text("under").value_or("");
  const std::uint64_t w = ask.parameters.number("w", 0, kLimits.picture_cells),
                      h = ask.parameters.number("h", 0, kLimits.picture_cells);
  const RowWindow window = {ask.parameters.number("first_row", 0, ~0ULL),
                            ask.parameters.number("rows", 0, kLimits.picture_cells)};
  if (Status good = ask.parameters.finish(); !good) return good.error();
  const Result<std::shared_ptr<const Facts>> read = ask.snapshot->facts();
  if (!read) return read.error();
  const Facts& facts = **read;
  const StepColumns columns = columns_of(*ask.snapshot, where, w);
  HealthRows rows(facts, by == "op", under);
  RowTable<ServedHealth> health;
  if (by == "rank") {
    add_health_of_ranks(*ask.snapshot, facts, where, columns, std::move(rows), window, health);
    return health.table.response(ask.request, ask.snapshot->generation());
  }
  {  // the cells are gone before the answer is made
    HealthCells cells(*ask.snapshot, facts, where, columns);
    const std::vector<std::uint32_t> ids = ops_below(facts, under);
    for (const std::uint32_t id : ids) {
      const OpFact& op = facts.ops[id];
      if (cells.takes(op)) rows.row_of(op);  // gives it a number: all rows are known before the first cell
    }
    const std::uint64_t rows_each = h == 0 ? 1 : std::max<std::uint64_t>(1, (rows.size() + h - 1) / h);
    for (const std::uint32_t i : ids) {
      const OpFact& op = facts.ops[i];
      if (!cells.takes(op)) continue;
      const std::size_t row = rows.row_of(op);
      if (row != HealthRows::kNone && window.contains(row)) cells.add(row / rows_each, op, i);
    }
    const auto name_row = [&](std::size_t row, ServedHealth& one) {
      one.row = rows.name(row * rows_each);
      one.has_children = rows.has_children(row * rows_each);
      one.row_count = static_cast<std::uint32_t>(rows.size());
    };
    add_health(*ask.snapshot, facts, columns, cells, name_row, health);
  }
  return health.table.response(ask.request, ask.snapshot->generation());
}

Result<Response> gradients(Ask& ask) {
  const Where where = Where::of(ask.parameters, "steps");
  const std::uint64_t w = ask.parameters.number("w", 0, kLimits.picture_cells),
                      h = ask.parameters.number("h", 0, kLimits.picture_cells);
  if (Status good = ask.parameters.finish(); !good) return good.error();
  const Result<std::shared_ptr<const Facts>> read = ask.snapshot->facts();
  if (!read) return read.error();
  const Facts& facts = **read;
  const Result<std::vector<GradientRow>> rows = gradient_rows(*ask.snapshot, facts, where);
  if (!rows) return rows.error();
  const StepColumns columns = columns_of(*ask.snapshot, where, w);
  std::unordered_map<std::string, std::size_t> numbers;
  std::vector<std::string> names;
  std::map<CellPlace, GradientCell> cells;
  const auto takes = [&](const GradientRow& row) {
    const StepPlaceFact& step = facts.steps[facts.ops[row.op].step];
    const CatalogRank& rank = ask.snapshot->frame().ranks[step.rank];
    return where.takes(rank, rank.steps[step.step]);
  };
  for (const GradientRow& row : *rows) {
    if (takes(row) && numbers.try_emplace(row.parameter, names.size()).second) names.push_back(row.parameter);
  }
  const std::size_t rows_each = h == 0 ? 1 : std::max<std::size_t>(1, (names.size() + h - 1) / h);
  for (const GradientRow& row : *rows) {
    if (!takes(row)) continue;
    const StepPlaceFact& step = facts.steps[facts.ops[row.op].step];
    cells[{numbers[row.parameter] / rows_each, step.rank, step.graph, columns.column_of(step.number)}].add(row);
  }
  RowTable<ServedGradient> gradients;
  for (const auto& [place, cell] : cells) {
    const auto& [row, rank, graph, column] = place;
    gradients.add({.parameter = names[row * rows_each],
                   .row_number = static_cast<std::uint32_t>(row),
                   .rank = rank_text(ask.snapshot->frame().ranks[rank]),
                   .graph = graph,
                   .column = static_cast<std::uint32_t>(column),
                   .first_step = columns.first_of(column),
                   .last_step = columns.last_of(column),
                   .l2norm = cell.l2norm,
                   .class_ = cell.state});
  }
  return gradients.table.response(ask.request, ask.snapshot->generation());
}

Result<Response> trend(Ask& ask) {
  const Where where = Where::of(ask.parameters, "steps");
  const std::string name = ask.parameters.required("name");
  const bool is_input = ask.parameters.word("side", "output", {"input", "output"}) == "input";
  const std::uint64_t slot = ask.parameters.number("slot", 0, ~0U);
  const std::string chosen = ask.parameters.text("columns").value_or("");
  if (Status good = ask.parameters.finish(); !good) return good.error();
  const Result<std::shared_ptr<const Facts>> read = ask.snapshot->facts();
  if (!read) return read.error();
  const Facts& facts = **read;
  RowTable<ServedTrend> trend;
  const std::shared_ptr<const Judgement> judgement = ask.snapshot->judgement();
  bool exists = false;
  std::optional<std::uint32_t> last_step;  // of several ops of one name in a step the first
  const Status done = ask.snapshot->with_database([&](Database& database) -> Status {
    Result<Statement> row = database.prepare(select_text(kSlot, kOfSlot).c_str());
    if (!row) return row.error();
    for (std::uint64_t i = 0; i < facts.ops.size(); ++i) {
      const OpFact& op = facts.ops[i];
      if (facts.names[op.name].op_name != name || last_step == op.step) continue;
      exists = true;
      const StepPlaceFact& place = facts.steps[op.step];
      const CatalogRank& rank = ask.snapshot->frame().ranks[place.rank];
      if (!where.takes(rank, rank.steps[place.step])) continue;
      last_step = op.step;
      row->set(0, i);
      row->set(1, std::int64_t{is_input});
      row->set(2, slot);
      if (row->next()) {
        const SlotRow found = row_of<SlotRow>(*row, kSlot);
        trend.add({.rank = rank_text(rank),
                   .graph = place.graph,
                   .step = place.number,
                   .statistics = judgement->statistics_of(i, found.position, found.statistics),
                   .class_ = facts.tensors[op.first_tensor + found.position].state});
      }
      row->reset();
    }
    return row->failed() ? Status(database.error("cannot read it")) : Status();
  });
  if (!done) return done.error();
  if (!exists) return Error{ErrorCode::not_found, "there is no op '" + name + "'"};
  if (Status good = trend.table.choose(chosen); !good) return good.error();
  return trend.table.response(ask.request, ask.snapshot->generation());
}

}  // namespace sonde::server
