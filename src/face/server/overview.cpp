// The content of a dump, and the way to each part of it: overview, tree of scopes, search, source lines.
#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <limits>
#include <map>

#include "face/report/catalog_text.h"
#include "face/report/json.h"
#include "face/server/ask.h"
#include "face/server/limits.h"
#include "face/server/rank_dimensions.h"
#include "ground/base/text.h"
#include "read/catalog/missing_ranks.h"
#include "read/index/index_schema.h"
#include "read/index/row_fields.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde::server {
namespace {

OverviewRank overview_of_rank(const CatalogRank& rank) {
  OverviewRank overview{.rank = rank_text(rank), .kind = rank.kind, .dump = rank.dump, .runs = {}, .dimensions = {}};
  for (std::size_t i = 0; i < rank.runs.size(); ++i) overview.runs.push_back({i, listed(rank.runs[i])});
  return overview;
}

OverviewStep overview_of_step(const CatalogRank& rank, const CatalogStep& step, State state) {
  const StepSum sum = step.sum.value_or(StepSum());
  const StepHealth health = step.health.value_or(StepHealth());
  return {.rank = rank_text(rank),
          .run = step.run,
          .graph = step.id.graph,
          .step = step.id.number,
          .started_us = step.started_us,
          .ended_us = step.ended_us,
          .ended = step.ended,
          .is_mended = step.is_mended,
          .ops = sum.ops,
          .parameters = sum.parameters,
          .tensors = sum.tensors,
          .files = sum.files,
          .bytes = sum.bytes,
          .known = health.known,
          .not_recorded = health.not_recorded,
          .class_ = state,
          .requests = listed_requests(step)};
}

// The tensor that backward begins with.
struct LossRow {
  std::uint64_t op_id = 0, source_slot = 0, position = 0;
  std::optional<std::int64_t> source;
  std::optional<KnownStatistics> statistics;
};
constexpr auto kLossRow = std::tuple(RowField{"op_id", &LossRow::op_id}, RowField{"source", &LossRow::source},
                                     RowField{"source_slot", &LossRow::source_slot},
                                     StatisticsField{&LossRow::statistics}, RowField{"position", &LossRow::position});

// A scalar's value is its largest element; null: neither the dump nor a `measure` job knows it.
std::optional<double> scalar_in(const LossRow& row, const Judgement& judgement) {
  const KnownStatistics statistics = judgement.statistics_of(row.op_id, row.position, row.statistics);
  const Health health = health_of(statistics);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (health.nan) return std::numeric_limits<double>::quiet_NaN();
  if (health.inf()) return health.positive_inf ? kInfinity : -kInfinity;
  return statistics.max;
}

// Backward begins with ones_like of the loss (docs/first-bad.md): its input is the loss, and its maker made it.
Result<std::vector<Loss>> losses(Snapshot& snapshot, const Facts& facts) {
  std::vector<Loss> list;
  const std::shared_ptr<const Judgement> judgement = snapshot.judgement();
  std::vector<bool> begins(facts.names.size());
  for (std::size_t i = 0; i < begins.size(); ++i) begins[i] = begins_backward(facts.names[i].op_type);
  const Status read = snapshot.with_database([&](Database& database) -> Status {
    Result<Statement> row = database.prepare(
        select_text(kLossRow, "FROM tensors WHERE op_id=? AND is_input AND slot=0 AND shape IN ('()', '(1)')").c_str());
    Result<Statement> maker = database.prepare(
        "SELECT op_names.op_name FROM ops JOIN op_names ON op_names.id=name_id WHERE sequence=? AND step_id=?");
    if (!row) return row.error();
    if (!maker) return maker.error();
    for (std::uint64_t i = 0; i < facts.ops.size(); ++i) {
      const OpFact& op = facts.ops[i];
      if (!begins[op.name]) continue;
      row->set(0, i);
      const LossRow loss = row->next() ? row_of<LossRow>(*row, kLossRow) : LossRow();
      if (loss.source) {
        maker->set(0, *loss.source);
        maker->set(1, std::uint64_t{op.step});
        const StepPlaceFact& step = facts.steps[op.step];
        if (maker->next()) {
          list.push_back({.rank = rank_text(snapshot.frame().ranks[step.rank]),
                          .graph = step.graph,
                          .step = step.number,
                          .op_name = std::string(maker->text(0)),
                          .slot = loss.source_slot,
                          .value = scalar_in(loss, *judgement)});
        }
        maker->reset();
      }
      row->reset();
    }
    return row->failed() || maker->failed() ? Status(database.error("cannot read it")) : Status();
  });
  if (!read) return read.error();
  return list;
}

struct LineSum {
  std::uint64_t ops = 0;
  State state = State::not_recorded;
  void add(const OpFact& op) {
    ++ops;
    state = std::max(state, op.state);
  }
};

std::vector<FileLine> lines_of(const std::string* text, const std::map<std::uint32_t, LineSum>& sums) {
  std::vector<FileLine> lines;
  const auto add = [&](std::uint32_t number, std::string_view words) {
    const auto sum = sums.find(number);
    const LineSum of = sum == sums.end() ? LineSum() : sum->second;
    lines.push_back({number, std::string(words), of.ops, of.state});
  };
  if (text == nullptr) {
    for (const auto& [number, sum] : sums) add(number, "");
    return lines;
  }
  std::uint32_t number = 0;
  for (const std::string_view line : split(*text, '\n')) add(++number, line);
  return lines;
}

// Where a search hit is first, and how often.
struct Found {
  HitKind kind;
  std::string name;
  std::uint64_t op = 0;
  std::uint64_t count = 0;
};

class Search {
 public:
  Search(const Facts& facts, std::string_view query) : facts_(facts), query_(lower_case(query)) {}

  bool takes(std::string_view text) const { return lower_case(text).find(query_) != std::string::npos; }

  void add(HitKind kind, const std::string& name, std::uint64_t op) {
    const auto [at, is_new] = numbers_.try_emplace({kind, name}, hits_.size());
    if (is_new) hits_.push_back({kind, name, op, 0});
    ++hits_[at->second].count;
  }

  void look(const std::map<std::uint32_t, std::string>& files) {
    std::vector<char> name_takes(facts_.names.size()), scope_takes(facts_.names.size());
    for (std::size_t i = 0; i < name_takes.size(); ++i) {
      name_takes[i] = takes(facts_.names[i].op_name);
      scope_takes[i] = takes(facts_.names[i].scope);
    }
    for (std::uint64_t i = 0; i < facts_.ops.size(); ++i) {
      const OpFact& op = facts_.ops[i];
      const OpName& name = facts_.names[op.name];
      if (scope_takes[op.name]) add(HitKind::scope, name.scope, i);
      if (name_takes[op.name]) add((op.flags & kIsParameter) != 0 ? HitKind::parameter : HitKind::op, name.op_name, i);
      const auto file = files.find(op.source_file);
      if (file == files.end()) continue;
      const std::string line = file->second + ":" + std::to_string(op.line);
      if (takes(line)) add(HitKind::line, line, i);
    }
  }

  // Names that begin with the query first, then words of names that do, then names that have it; of lines and scopes the last part is the
  // name. Equal ones stay in the order of the run.
  std::vector<Found> hits() const {
    std::array<std::vector<Found>, kFarthest + 1> by_distance;
    for (const Found& hit : hits_) by_distance[distance(hit.name)].push_back(hit);
    std::vector<Found> sorted;
    for (std::vector<Found>& some : by_distance) std::ranges::move(some, std::back_inserter(sorted));
    return sorted;
  }

 private:
  static constexpr std::size_t kFarthest = 3;

  std::size_t distance(const std::string& name) const {
    const std::string own = lower_case(std::string_view(name).substr(name.rfind('/') + 1));
    std::size_t least = kFarthest;
    for (std::size_t at = own.find(query_); at != std::string::npos; at = own.find(query_, at + 1)) {
      const bool is_inside = at > 0 && std::isalnum(static_cast<unsigned char>(own[at - 1])) != 0;
      least = std::min<std::size_t>(least, at == 0 ? 0 : is_inside ? 2 : 1);
    }
    return least;
  }

  const Facts& facts_;
  std::string query_;
  std::map<std::pair<HitKind, std::string>, std::size_t> numbers_;
  std::vector<Found> hits_;
};

}  // namespace

Result<Response> overview(Ask& ask) {
  if (Status good = ask.parameters.finish(); !good) return good.error();
  const Result<std::shared_ptr<const Facts>> facts = ask.snapshot->facts();
  if (!facts) return facts.error();
  std::vector<State> states((*facts)->steps.size());
  for (const OpFact& op : (*facts)->ops) states[op.step] = std::max(states[op.step], op.state);
  const Catalog& frame = ask.snapshot->frame();
  Overview overview;
  overview.dump = ask.dump.number();
  Result<std::vector<std::vector<RankDimension>>> dimensions = rank_dimensions(*ask.snapshot);
  if (!dimensions) return dimensions.error();
  std::size_t next = 0;
  for (std::size_t i = 0; i < frame.ranks.size(); ++i) {
    const CatalogRank& rank = frame.ranks[i];
    for (const CatalogRun& run : rank.runs) std::ranges::copy(run.notes, std::back_inserter(overview.warnings));
    if (!rank.runs.empty()) {
      overview.world_size = std::max<std::uint64_t>(overview.world_size, rank.runs.back().world_size);
    }
    overview.ranks.push_back(overview_of_rank(rank));
    overview.ranks.back().dimensions = std::move((*dimensions)[i]);
    for (const CatalogStep& step : rank.steps) overview.steps.push_back(overview_of_step(rank, step, states[next++]));
  }
  std::ranges::move(rank_notes(frame), std::back_inserter(overview.warnings));
  for (const CatalogProblem& problem : frame.problems) overview.problems.push_back({problem.path, problem.message});
  Result<std::vector<Loss>> loss = losses(*ask.snapshot, **facts);
  if (!loss) return loss.error();
  overview.loss = std::move(*loss);
  ServedDump::Finding finding = ask.dump.finding();
  overview.finding = std::move(finding.first_bad);
  overview.finding_generation = finding.generation;
  return ask.answer(std::move(overview));
}

Result<Response> scopes(Ask& ask) {
  const Where where = Where::of(ask.parameters);
  const std::string under = ask.parameters.text("under").value_or("");
  if (Status good = ask.parameters.finish(); !good) return good.error();
  const Result<std::shared_ptr<const Facts>> read = ask.snapshot->facts();
  if (!read) return read.error();
  const Facts& facts = **read;
  Scopes answer{.under = under, .scopes = {}};
  std::map<std::string_view, std::size_t> numbers;
  for (std::uint64_t i = 0; i < facts.ops.size(); ++i) {
    const OpFact& op = facts.ops[i];
    const StepPlaceFact& place = facts.steps[op.step];
    const CatalogRank& rank = ask.snapshot->frame().ranks[place.rank];
    if (!where.takes(rank, rank.steps[place.step])) continue;
    const std::string_view scope = shown_scope(facts, op);
    answer.ops += scope == under ? 1 : 0;
    const std::size_t begin = under.empty() ? 0 : under.size() + 1;
    if (scope.size() <= begin || !(under.empty() || scope.starts_with(under + "/"))) continue;
    const std::size_t end = scope.find('/', begin);
    const auto [at, is_new] = numbers.try_emplace(scope.substr(0, end), answer.scopes.size());
    if (is_new)
      answer.scopes.push_back({std::string(scope.substr(0, end)), std::string(scope.substr(begin, end - begin))});
    ScopeBelow& below = answer.scopes[at->second];
    ++below.ops;
    below.class_ = std::max(below.class_, op.state);
    below.has_scopes |= end != std::string_view::npos;
  }
  return ask.answer(std::move(answer));
}

Result<Response> search(Ask& ask) {
  const std::string query = ask.parameters.required("q");
  const std::uint64_t limit = ask.parameters.number("limit", 50, kLimits.rows);
  if (Status good = ask.parameters.finish(); !good) return good.error();
  const Result<std::shared_ptr<const Facts>> facts = ask.snapshot->facts();
  if (!facts) return facts.error();
  const Result<std::map<std::uint32_t, std::string>> files = ask.snapshot->source_files();
  if (!files) return files.error();
  Search found(**facts, query);
  found.look(*files);
  const std::vector<Found> hits = found.hits();
  Hits answer{.hits = {}, .truncated = hits.size() > limit};
  for (const Found& hit : hits) {
    if (answer.hits.size() == limit) break;
    const OpFact& op = (*facts)->ops[hit.op];
    const StepPlaceFact& step = (*facts)->steps[op.step];
    answer.hits.push_back({.kind = hit.kind,
                           .name = hit.name,
                           .rank = rank_text(ask.snapshot->frame().ranks[step.rank]),
                           .graph = step.graph,
                           .step = step.number,
                           .op_name = (*facts)->names[op.name].op_name,
                           .count = hit.count});
  }
  return ask.answer(std::move(answer));
}

Result<Response> source(Ask& ask) {
  const std::optional<std::string> rank_name = ask.parameters.text("rank");
  const std::optional<std::string> wanted = ask.parameters.text("file");
  if (Status good = ask.parameters.finish(); !good) return good.error();
  Where where;
  where.rank = rank_name;
  const Result<std::shared_ptr<const Facts>> facts = ask.snapshot->facts();
  if (!facts) return facts.error();
  const Result<std::map<std::uint32_t, std::string>> files = ask.snapshot->source_files();
  if (!files) return files.error();
  std::map<std::string, std::map<std::uint32_t, LineSum>> sums;
  std::map<std::string, std::uint32_t> rank_of;  // the first that has the file
  for (std::uint64_t i = 0; i < (*facts)->ops.size(); ++i) {
    const OpFact& op = (*facts)->ops[i];
    const auto file = files->find(op.source_file);
    const std::uint32_t rank = (*facts)->steps[op.step].rank;
    if (file == files->end() || !where.takes(ask.snapshot->frame().ranks[rank])) continue;
    sums[file->second][op.line].add(op);
    rank_of.emplace(file->second, rank);
  }
  std::map<std::uint32_t, SourceTexts> texts;  // by rank
  const auto text_of = [&](const std::string& file) -> std::optional<std::string> {
    const std::uint32_t rank = rank_of.at(file);
    auto of_rank = texts.find(rank);
    if (of_rank == texts.end()) {
      of_rank = texts.emplace(rank, sources_of(ask.snapshot->frame().ranks[rank])).first;
    }
    const std::string* const text = of_rank->second.text(file);
    return text == nullptr ? std::nullopt : std::optional(*text);
  };
  if (wanted) {
    const auto sum = sums.find(*wanted);
    if (sum == sums.end()) {
      return Error{ErrorCode::not_found, "no op of this dump has a line of '" + *wanted + "'"};
    }
    const std::optional<std::string> text = text_of(*wanted);
    return ask.answer(SourceFile{
        .source_file = *wanted, .has_text = text.has_value(), .lines = lines_of(text ? &*text : nullptr, sum->second)});
  }
  SourceFiles answer;
  for (const auto& [file, lines] : sums) {
    LineSum all;
    for (const auto& [line, sum] : lines) {
      all.ops += sum.ops;
      all.state = std::max(all.state, sum.state);
    }
    answer.files.push_back({.source_file = file,
                            .ops = all.ops,
                            .lines = lines.size(),
                            .class_ = all.state,
                            .has_text = text_of(file).has_value()});
  }
  return ask.answer(std::move(answer));
}

}  // namespace sonde::server
