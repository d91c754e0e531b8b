#include "face/server/facts.h"

#include <algorithm>
#include <numeric>

#include "contract/names.h"
#include "face/report/catalog_text.h"
#include "face/report/json.h"
#include "read/index/index_schema.h"
#include "read/index/row_fields.h"

namespace sonde::server {
namespace {

// Every tensor needs these. Of most the dump has counted that all is finite: the other columns are read of the rest alone.
struct TensorPlaceRow {
  std::uint64_t op_id = 0, position = 0;
  bool is_input = false, is_finite = false;
  std::optional<std::uint64_t> source;
};
constexpr auto kTensorPlaceRow =
    std::tuple(RowField{"op_id", &TensorPlaceRow::op_id}, RowField{"position", &TensorPlaceRow::position},
               RowField{"is_input", &TensorPlaceRow::is_input}, RowField{"source", &TensorPlaceRow::source},
               RowField{"nan_count=0 AND positive_inf_count=0 AND negative_inf_count=0", &TensorPlaceRow::is_finite});

// The facts that the state of another one needs.
struct TensorFactRow {
  bool is_input = false;
  std::uint32_t slot = 0, flags = 0;
  std::optional<std::string_view> dtype;
  std::optional<KnownStatistics> statistics;
  std::optional<std::uint64_t> directory;
  double constant = 0;
};
constexpr auto kTensorFactRow =
    std::tuple(RowField{"is_input", &TensorFactRow::is_input}, RowField{"slot", &TensorFactRow::slot},
               RowField{"dtype", &TensorFactRow::dtype}, StatisticsField{&TensorFactRow::statistics},
               RowField{"flags", &TensorFactRow::flags}, RowField{"directory", &TensorFactRow::directory},
               RowField{"constant", &TensorFactRow::constant});
constexpr int kFirstFactColumn = std::tuple_size_v<decltype(kTensorPlaceRow)>;

struct OpFactRow {
  std::uint32_t step_id = 0, name_id = 0;
  std::string_view phase, scope;
  std::uint8_t flags = 0;
  std::optional<std::uint32_t> source_file;
  std::uint32_t source_line = 0;
};
constexpr auto kOpFactRow =
    std::tuple(RowField{"step_id", &OpFactRow::step_id}, RowField{"name_id", &OpFactRow::name_id},
               RowField{"phase", &OpFactRow::phase}, RowField{"flags", &OpFactRow::flags},
               RowField{names::source_file, &OpFactRow::source_file},
               RowField{names::source_line, &OpFactRow::source_line}, RowField{"scopes.text", &OpFactRow::scope});

CatalogTensor catalog_tensor(const TensorFactRow& row, std::string_view& last_name, DType& last_dtype) {
  CatalogTensor tensor;
  tensor.is_input = row.is_input;
  tensor.slot = row.slot;
  if (row.dtype) {
    if (*row.dtype != last_name) {
      last_dtype = dtype_from_name(*row.dtype);
      last_name = info(last_dtype).lower;
    }
    tensor.dtype = last_dtype;
  }
  tensor.statistics = row.statistics;
  if (row.directory) tensor.file = "?";  // there is one
  if ((row.flags & kHasConstant) != 0) tensor.constant = row.constant;
  return tensor;
}

Status read_names(Database& database, Facts& facts) {
  Result<Statement> rows = database.prepare("SELECT id, op_name, op_type FROM op_names WHERE id>=? ORDER BY id");
  if (!rows) return rows.error();
  rows->set(0, std::uint64_t{facts.names.size()});
  while (rows->next()) {
    OpName& name = facts.names.emplace_back();
    name.op_name = rows->text(1);
    name.op_type = rows->text(2);
  }
  return rows->failed() ? Status(database.error("cannot read it")) : Status();
}

Status place_steps(Database& database, const Catalog& frame, Facts& facts) {
  Result<Statement> rows = database.prepare("SELECT rank_id FROM steps ORDER BY id");
  if (!rows) return rows.error();
  std::vector<std::uint32_t> next(frame.ranks.size());  // a rank's steps in the frame have the order of their ids
  while (rows->next()) {
    const std::uint64_t rank = rows->number(0);
    if (rank >= next.size() || next[rank] >= frame.ranks[rank].steps.size()) {
      return database.error("cannot read it: a step has no rank");
    }
    const std::uint32_t step = next[rank]++;
    const StepId id = frame.ranks[rank].steps[step].id;
    facts.steps.push_back({static_cast<std::uint32_t>(rank), step, id.graph, id.number});
  }
  return rows->failed() ? Status(database.error("cannot read it")) : Status();
}

Status read_ops(Database& database, Facts& facts) {
  Result<Statement> rows = database.prepare(
      select_text(kOpFactRow,
                  "FROM ops LEFT JOIN texts AS scopes ON scopes.id=ops.scope WHERE ops.id>=? ORDER BY ops.id")
          .c_str());
  if (!rows) return rows.error();
  rows->set(0, std::uint64_t{facts.ops.size()});
  while (rows->next()) {
    const OpFactRow row = row_of<OpFactRow>(*rows, kOpFactRow);
    if (row.step_id >= facts.steps.size() || row.name_id >= facts.names.size()) {
      return database.error("cannot read it: an op has no step or no name");
    }
    OpFact& op = facts.ops.emplace_back();
    op.step = row.step_id;
    op.name = row.name_id;
    op.phase = static_cast<std::uint8_t>(value_of_word<Phase>(row.phase));
    op.flags = row.flags;
    op.source_file = row.source_file ? *row.source_file + 1 : 0;
    op.line = row.source_line;
    OpName& name = facts.names[op.name];
    if (name.scope.empty()) {
      CatalogOp like;
      like.op_name = name.op_name;
      like.is_parameter = (op.flags & kIsParameter) != 0;
      like.scope = row.scope;
      name.scope = scope_of(like);
    }
  }
  return rows->failed() ? Status(database.error("cannot read it")) : Status();
}

State judged(State state, const CatalogTensor& tensor, const OpFact& op, const Facts& facts, const Catalog& frame,
             const Judgement& judgement) {
  if (state != State::unjudged_infinity || judgement.infinities.empty()) return state;
  const StepPlaceFact& step = facts.steps[op.step];
  const auto found = judgement.infinities.find(
      {rank_text(frame.ranks[step.rank]), step.graph, facts.names[op.name].op_name, tensor.is_input, tensor.slot});
  if (found == judgement.infinities.end()) return state;
  for (const Judgement::InSteps& one : found->second) {
    if (!one.steps.contains(step.number)) continue;
    state = state == State::unjudged_infinity ? one.state : std::max(state, one.state);
  }
  return state;
}

struct TensorState {
  State state;
  bool is_recorded;
};

Status read_tensors(Database& database, const Catalog& frame, const Judgement& judgement, std::uint64_t first_new,
                    Facts& facts) {
  Result<Statement> rows = database.prepare(select_text(std::tuple_cat(kTensorPlaceRow, kTensorFactRow),
                                                        "FROM tensors WHERE op_id>=? ORDER BY op_id, position")
                                                .c_str());
  if (!rows) return rows.error();
  std::string_view last_name;
  DType last_dtype = DType::undefined;
  const auto look = [&](const TensorPlaceRow& place) -> TensorState {
    if (place.is_finite) return {State::fine, true};
    const auto row = row_of<TensorFactRow>(*rows, kTensorFactRow, kFirstFactColumn);
    CatalogTensor tensor = catalog_tensor(row, last_name, last_dtype);
    if (!judgement.measured.empty() && !tensor.statistics) {
      const auto measured = judgement.measured.find(tensor_key(place.op_id, place.position));
      if (measured != judgement.measured.end()) tensor.statistics = measured->second;
    }
    return {judged(state_of(tensor), tensor, facts.ops[place.op_id], facts, frame, judgement), tensor.recorded()};
  };
  rows->set(0, first_new);
  std::uint64_t next_op = first_new;
  std::vector<State> worst_of_others(facts.ops.size() - first_new);
  while (rows->next()) {
    const auto row = row_of<TensorPlaceRow>(*rows, kTensorPlaceRow);
    const std::uint64_t id = row.op_id;
    if (id >= facts.ops.size()) return database.error("cannot read it: a tensor has no op");
    for (; next_op <= id; ++next_op) facts.ops[next_op].first_tensor = facts.tensors.size();
    OpFact& op = facts.ops[id];
    const auto [state, is_recorded] = look(row);
    facts.tensors.push_back(
        {static_cast<std::uint32_t>(id), static_cast<std::uint16_t>(row.position), row.is_input, state});
    // The output of another op is judged at that op.
    if (row.is_input && row.source) {
      State& worst = worst_of_others[id - first_new];
      worst = std::max(worst, state);
    } else {
      op.state = std::max(op.state, state);
    }
    op.recorded += is_recorded;
    op.nan_tensors += state == State::nan;
    op.inf_tensors += state == State::infinity || state == State::unjudged_infinity || state == State::healthy_infinity;
    op.not_measured += state == State::not_measured;
  }
  for (; next_op < facts.ops.size(); ++next_op) facts.ops[next_op].first_tensor = facts.tensors.size();
  for (std::size_t i = first_new; i < facts.ops.size(); ++i) {
    if (facts.ops[i].state == State::not_recorded) facts.ops[i].state = worst_of_others[i - first_new];
  }
  return rows->failed() ? Status(database.error("cannot read it")) : Status();
}

}  // namespace

State state_of(const CatalogTensor& tensor) {
  if (!tensor.recorded()) return State::not_recorded;
  const std::optional<Health> health = stated_health(tensor);
  if (!health || !health->known) return State::not_measured;
  if (health->nan) return State::nan;
  return health->inf() ? State::unjudged_infinity : State::fine;
}

Result<std::shared_ptr<const Facts>> Facts::read(Database& database, const Catalog& frame, const Judgement& judgement,
                                                 const Facts* earlier, std::uint64_t first_new) {
  auto facts = std::make_shared<Facts>();
  if (earlier != nullptr && first_new <= earlier->ops.size()) {
    facts->names = earlier->names;
    facts->ops.assign(earlier->ops.begin(), earlier->ops.begin() + static_cast<std::ptrdiff_t>(first_new));
    const std::uint64_t tensors =
        first_new < earlier->ops.size() ? earlier->ops[first_new].first_tensor : earlier->tensors.size();
    facts->tensors.assign(earlier->tensors.begin(), earlier->tensors.begin() + static_cast<std::ptrdiff_t>(tensors));
  } else {
    first_new = 0;
  }
  Status status = place_steps(database, frame, *facts);
  if (status) status = read_names(database, *facts);
  if (status) status = read_ops(database, *facts);
  if (status) status = read_tensors(database, frame, judgement, first_new, *facts);
  if (!status) return status.error();
  return std::shared_ptr<const Facts>(std::move(facts));
}

bool Facts::has_infinities() const {
  return std::ranges::any_of(ops, [](const OpFact& op) { return op.inf_tensors > 0; });
}

Facts::ByName Facts::by_name() const {
  ByName table;
  std::vector<std::uint32_t> number_of(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto next = static_cast<std::uint32_t>(table.numbers.size());
    number_of[i] = table.numbers.try_emplace(names[i].op_name, next).first->second;
  }
  table.begin.resize(table.numbers.size() + 1);
  for (const OpFact& op : ops) ++table.begin[number_of[op.name] + 1];
  std::partial_sum(table.begin.begin(), table.begin.end(), table.begin.begin());
  std::vector<std::uint32_t> next = table.begin;
  table.ops.resize(ops.size());
  for (std::uint32_t id = 0; id < ops.size(); ++id) table.ops[next[number_of[ops[id].name]]++] = id;
  return table;
}

std::span<const std::uint32_t> Facts::ops_named(std::string_view name) const {
  std::call_once(by_name_once_, [this] { by_name_ = by_name(); });
  const auto found = by_name_.numbers.find(name);
  if (found == by_name_.numbers.end()) return {};
  const std::uint32_t begin = by_name_.begin[found->second];
  return std::span(by_name_.ops).subspan(begin, by_name_.begin[found->second + 1] - begin);
}

}  // namespace sonde::server
