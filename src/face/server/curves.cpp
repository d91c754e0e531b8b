// The course of each row of a table over the steps, in few columns: the small curves of the page's tables.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "contract/served_rows.h"
#include "face/server/ask.h"
#include "face/server/limits.h"
#include "face/server/rows.h"
#include "read/index/index_reader.h"
#include "read/index/index_schema.h"
#include "read/measure/trend.h"

namespace sonde::server {
namespace {

// The tensor of a row: an op's name in a rank and a graph, and a slot.
struct CurveOf {
  std::uint32_t name = 0, rank = 0, graph = 0, slot = 0;
  bool is_input = false;
  auto operator<=>(const CurveOf&) const = default;
};

struct CurvePoint {
  std::uint64_t first_step = ~0ULL, last_step = 0;
  std::optional<double> value;  // the largest; a NaN is larger than all
  State state = State::not_recorded;
};
using Curve = std::map<std::size_t, CurvePoint>;  // by column

CurveOf curve_of(const Facts& facts, const OpFact& op, bool is_input, std::uint32_t slot) {
  const StepPlaceFact& step = facts.steps[op.step];
  return {op.name, step.rank, step.graph, slot, is_input};
}

// The statistic of the tensors of one curve, read by the steps that have it.
class CurveReader {
 public:
  CurveReader(const Ask& ask, const Facts& facts, std::string column, std::uint64_t most_columns)
      : facts_(facts), column_(std::move(column)), judgement_(ask.snapshot->judgement()) {
    std::set<std::uint64_t> steps;
    for (const StepPlaceFact& step : facts.steps) steps.insert(step.number);
    steps_.assign(steps.begin(), steps.end());
    each_ = std::max<std::size_t>(1, (steps_.size() + most_columns - 1) / most_columns);
  }

  Status read(Database& database, const CurveOf& of, const std::vector<std::uint32_t>& ops, Curve& curve) {
    Result<Statement> row = database.prepare(select_text(kSlot, kOfSlot).c_str());
    if (!row) return row.error();
    for (const std::uint32_t number : ops) {
      const OpFact& op = facts_.ops[number];
      row->set(0, std::uint64_t{number});
      row->set(1, std::int64_t{of.is_input});
      row->set(2, std::uint64_t{of.slot});
      if (row->next()) add(row_of<SlotRow>(*row, kSlot), op, number, curve);
      row->reset();
    }
    return row->failed() ? Status(database.error("cannot read it")) : Status();
  }

 private:
  void add(const SlotRow& row, const OpFact& op, std::uint32_t number, Curve& curve) const {
    const std::uint64_t step = facts_.steps[op.step].number;
    const KnownStatistics known = judgement_->statistics_of(number, row.position, row.statistics);
    const std::size_t column =
        static_cast<std::size_t>(std::ranges::lower_bound(steps_, step) - steps_.begin()) / each_;
    CurvePoint& point = curve[column];
    point.first_step = std::min(point.first_step, step);
    point.last_step = std::max(point.last_step, step);
    point.state = std::max(point.state, facts_.tensors[op.first_tensor + row.position].state);
    const std::optional<double> value = statistic(known, column_);
    if (value && !(point.value && (std::isnan(*point.value) || *value <= *point.value))) point.value = value;
  }

  const Facts& facts_;
  std::string column_;
  std::shared_ptr<const Judgement> judgement_;
  std::vector<std::uint64_t> steps_;
  std::size_t each_ = 1;
};

}  // namespace

Result<Response> curves(Ask& ask) {
  const bool of_ops = ask.parameters.word("of", "tensors", {"tensors", "ops"}) == "ops";
  const std::string column = ask.parameters.word("column", "l2norm", {"max", "min", "avg", "l2norm"});
  const std::uint64_t w = std::max<std::uint64_t>(1, ask.parameters.number("w", 40, kMostCurveColumns)),
                      offset = ask.parameters.number("offset", 0, ~0ULL),
                      limit = ask.parameters.number("limit", kMostCurves, kMostCurves);
  RowQuery query = asked_rows(ask, of_ops ? RowsOf::ops : RowsOf::tensors);
  if (Status good = ask.parameters.finish(); !good) return good.error();
  const Result<std::shared_ptr<const Facts>> read = ask.snapshot->facts();
  if (!read) return read.error();
  const Facts& facts = **read;
  const Result<RowList> rows = find_rows(*ask.snapshot, facts, query);
  if (!rows) return rows.error();
  const std::uint64_t begin = std::min<std::uint64_t>(offset, (*rows)->size()),
                      end = std::min<std::uint64_t>(begin + limit, (*rows)->size());
  CurveReader reader(ask, facts, column, w);
  std::vector<CurveOf> wanted;
  std::map<CurveOf, Curve> found;
  const Status done = ask.snapshot->with_database([&](Database& database) -> Status {
    Result<Statement> slot = database.prepare("SELECT slot FROM tensors WHERE op_id=? AND position=?");
    if (!slot) return slot.error();
    for (std::uint64_t i = begin; i < end; ++i) {
      const std::uint32_t number = (**rows)[i];
      if (of_ops) {
        wanted.push_back(curve_of(facts, facts.ops[number], false, 0));
        continue;
      }
      const TensorFact& tensor = facts.tensors[number];
      slot->set(0, std::uint64_t{tensor.op});
      slot->set(1, std::uint64_t{tensor.position});
      if (!slot->next()) return database.error("cannot read it: a tensor is missing");
      wanted.push_back(
          curve_of(facts, facts.ops[tensor.op], tensor.is_input, static_cast<std::uint32_t>(slot->number(0))));
      slot->reset();
    }
    // The ops of these names, in one pass over all of them.
    std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> ops_of_name;
    for (const CurveOf& of : wanted) ops_of_name.try_emplace(of.name);
    for (std::uint32_t i = 0; i < facts.ops.size(); ++i) {
      const auto named = ops_of_name.find(facts.ops[i].name);
      if (named != ops_of_name.end()) named->second.push_back(i);
    }
    for (const CurveOf& of : wanted) {
      const auto [curve, is_new] = found.try_emplace(of);
      if (!is_new) continue;
      std::vector<std::uint32_t> ops;
      for (const std::uint32_t number : ops_of_name[of.name]) {
        const StepPlaceFact& step = facts.steps[facts.ops[number].step];
        if (step.rank == of.rank && step.graph == of.graph) ops.push_back(number);
      }
      if (Status good = reader.read(database, of, ops, curve->second); !good) return good;
    }
    return {};
  });
  if (!done) return done.error();
  RowTable<ServedPoint> points;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (const auto& [number, point] : found.at(wanted[i])) {
      points.add({.row = begin + i,
                  .column = static_cast<std::uint32_t>(number),
                  .first_step = point.first_step,
                  .last_step = point.last_step,
                  .value = point.value,
                  .class_ = point.state});
    }
  }
  return points.table.response(ask.request, ask.snapshot->generation());
}

}  // namespace sonde::server
