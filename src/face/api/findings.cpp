// The analyses behind sonde/findings.h: options are checked, the dump is locked, a room does the work. The verbs of cli/ call
// the same rooms, not these functions: a verb opens the dump itself, to report its problems and to read no more of it than it
// needs, and prints from the catalog, while an answer here owns its texts and outlives the dump. Everything that both decide
// is therefore a function of a room: parse_steps and check_part, compare_options, make_watchpoints, convert_spec.
#include "sonde/findings.h"

#include <functional>
#include <set>

#include "ask/compare/compare.h"
#include "ask/convert/convert_files.h"
#include "ask/first_bad/first_bad.h"
#include "ask/first_bad/first_bad_parts.h"
#include "ask/headroom/headroom.h"
#include "ask/relations/relations.h"
#include "ask/stomp/memory_stomp.h"
#include "face/api/dump_access.h"
#include "face/report/comparison.h"
#include "face/report/first_bad.h"
#include "face/report/headroom.h"
#include "face/report/line_kind.h"
#include "face/report/stomp.h"
#include "face/report/watch.h"
#include "ground/base/mutex.h"
#include "ground/contract/json.h"
#include "read/catalog/dump_part.h"
#include "read/catalog/missing_ranks.h"
#include "read/catalog/slot_text.h"
#include "read/catalog/unfinished_runs.h"

namespace sonde {
namespace {

// Fails where the options name nothing.
Result<DumpPart> part_of(const Catalog& catalog, const Part& asked) {
  const Result<StepSet> steps = parse_steps(asked.step);
  if (!steps) return steps.error();
  const DumpPart part = {*steps, asked.graph, asked.rank, asked.request};
  const Status there = check_part(catalog, part);
  if (!there) return there.error();
  return part;
}

// The verbs report what they could not read when they open a dump; an answer has these problems before its own.
void add_problems_of(const Catalog& catalog, std::vector<DumpProblem>& problems) {
  std::vector<DumpProblem> all;
  for (const CatalogProblem& problem : catalog.problems) {
    if (problem.kind != ProblemKind::elsewhere) all.push_back({problem.path, problem.message});
  }
  all.insert(all.end(), problems.begin(), problems.end());
  problems.clear();
  std::set<std::pair<std::string, std::string>> known;
  for (DumpProblem& problem : all) {
    if (known.emplace(problem.path, problem.message).second) problems.push_back(std::move(problem));
  }
}

}  // namespace

Result<FirstBad> first_bad(const Dump& dump, const FirstBadQuestion& question) {
  const Lock lock(DumpAccess::mutex(dump));
  const Catalog& catalog = DumpAccess::catalog(dump);
  const Result<DumpPart> part = part_of(catalog, question);
  if (!part) return part.error();
  FirstBadOptions wanted;
  wanted.part = *part;
  wanted.threads = static_cast<unsigned>(question.threads);
  wanted.trend = !question.no_trend;
  FirstBad report = first_bad(catalog, wanted);
  add_problems_of(catalog, report.problems);
  return report;
}

Result<FirstBad> first_bad_of_parts(const std::filesystem::path& dump, const std::filesystem::path& parts,
                                    const FirstBadQuestion& question) {
  const Result<StepSet> steps = parse_steps(question.step);
  if (!steps) return steps.error();
  FirstBadOptions wanted;
  wanted.part = {*steps, question.graph, question.rank, question.request};
  wanted.threads = static_cast<unsigned>(question.threads);
  wanted.trend = !question.no_trend;
  Result<SearchedParts> searched = SearchedParts::read(dump, wanted, parts);
  if (!searched) return searched.error();
  const Result<DumpPart> part = part_of(searched->catalog(), question);
  if (!part) return part.error();
  FirstBad report = searched->first_bad();
  add_problems_of(searched->catalog(), report.problems);
  return report;
}

std::string text_of(const FirstBad& report) { return without_marks(text_of(report, 0)); }
std::string json_text_of(const FirstBad& report) { return text_of_json(document_of(report)); }

Result<StompReport> stomp(const Dump& dump, const Part& asked) {
  const Lock lock(DumpAccess::mutex(dump));
  const Catalog& catalog = DumpAccess::catalog(dump);
  const Result<DumpPart> part = part_of(catalog, asked);
  if (!part) return part.error();
  StompReport report = memory_stomp(catalog, *part);
  report.warnings = early_ends(catalog, *part);
  add_problems_of(catalog, report.problems);
  return report;
}

std::string json_text_of(const StompReport& report) { return text_of_json(document_of(report)); }

Result<HeadroomReport> headroom(const Dump& dump, const HeadroomQuestion& question) {
  const Lock lock(DumpAccess::mutex(dump));
  const Catalog& catalog = DumpAccess::catalog(dump);
  const Result<DumpPart> part = part_of(catalog, question);
  if (!part) return part.error();
  const Result<HeadroomOptions> wanted = headroom_options(question);
  if (!wanted) return wanted.error();
  std::vector<RecordedOp> ops;
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) {
      if (!part->takes(rank) || !part->takes(step)) continue;
      for (const CatalogOp& op : step.ops) ops.push_back({&rank, &step, &op});
    }
  }
  HeadroomReport report = headroom(ops, *wanted);
  add_problems_of(catalog, report.problems);
  return report;
}

std::string text_of(const HeadroomReport& report) { return without_marks(text_of(report, false, 0)); }
std::string json_text_of(const HeadroomReport& report) { return text_of_json(document_of(report)); }

// --- compare ---------------------------------------------------------------------------------------------------------

struct ComparedDumps::State {
  Dump target, golden;  // the comparison points into their catalogs
  CompareOptions options;
  DumpComparison found;
  mutable std::optional<Comparison> answer;  // once it was asked for, under the locks

  Comparison whole_answer() const;
  template <typename Body>
  decltype(auto) locked(const Body& body) const {
    Mutex &first = DumpAccess::mutex(target), &second = DumpAccess::mutex(golden);
    if (&first == &second) {  // a dump compared with itself
      const Lock lock(first);
      return body();
    }
    const bool in_order = std::less<>()(&first, &second);  // the same one first in all threads: none waits for ever
    const Lock one(in_order ? first : second), other(in_order ? second : first);
    return body();
  }
};

Comparison ComparedDumps::State::whole_answer() const {
  Comparison all = answer_of(found, options);
  for_each_op(found, [&](OperatorPair&& op) { all.ops.push_back(std::move(op)); });
  for (const std::string& message : found.unreadable) all.problems.push_back({{}, message});
  for (const std::string& message : found.left_out) all.problems.push_back({{}, message});
  add_problems_of(DumpAccess::catalog(golden), all.problems);
  add_problems_of(DumpAccess::catalog(target), all.problems);
  return all;
}

Result<ComparedDumps> compare(const Dump& target, const Dump& golden, const CompareQuestion& question) {
  const Result<CompareOptions> wanted = compare_options(question);
  if (!wanted) return wanted.error();
  auto state = std::make_shared<ComparedDumps::State>(ComparedDumps::State{target, golden, *wanted, {}, {}});
  const Status status = state->locked([&]() -> Status {
    Result<DumpComparison> found = compare_programs(DumpAccess::catalog(target), DumpAccess::catalog(golden), *wanted);
    if (!found) return found.error();
    state->found = std::move(*found);
    return {};
  });
  if (!status) return status.error();
  ComparedDumps compared;
  compared.state_ = std::move(state);
  return compared;
}

const Comparison& ComparedDumps::answer() const {
  return state_->locked([&]() -> const Comparison& {
    if (!state_->answer) state_->answer = state_->whole_answer();
    return *state_->answer;
  });
}

std::vector<std::string> ComparedDumps::left_out() const {
  std::vector<std::string> all = state_->found.left_out;
  all.insert(all.end(), state_->found.unreadable.begin(), state_->found.unreadable.end());
  return all;
}

std::string ComparedDumps::text(bool all) const {
  return state_->locked([&] { return without_marks(report_of(state_->found, state_->options, all, 0)); });
}

std::string ComparedDumps::csv() const {
  return state_->locked([&] { return csv_of(state_->found); });
}
std::string ComparedDumps::junit() const {
  return state_->locked([&] { return junit_of(state_->found); });
}

std::string json_text_of(const Comparison& comparison) { return text_of_json(document_of(comparison)); }

// --- watch -----------------------------------------------------------------------------------------------------------

namespace {

DumpSelection selection_of(const WatchQuestion& question) {
  DumpSelection selection;
  if (question.graph) selection.graphs = {*question.graph};
  if (question.rank) selection.ranks = {*question.rank};
  selection.op = question.op;
  selection.type = question.type;
  selection.source = question.source;
  if (question.side == "input") selection.inputs = true;
  return selection;
}

WatchFinding watch_finding(const Dump& dump, const Watchpoint& watchpoint, const TensorPlace& place) {
  const CatalogRank& rank = DumpAccess::catalog(dump).ranks[place.rank];
  const CatalogStep& step = rank.steps[place.step];
  const CatalogOp& op = step.ops[place.op];
  const CatalogTensor& tensor = op.tensors[place.tensor];
  WatchFinding finding;
  finding.condition = watchpoint.condition.info->id;
  finding.tensor = DumpAccess::index_of(dump, place);
  finding.rank = rank.rank;
  finding.graph = step.id.graph;
  finding.step = step.id.number;
  finding.op_name = op.op_name;
  finding.side = side_of(tensor);
  finding.slot = tensor.slot;
  return finding;
}

WatchFinding watch_finding(const Dump& dump, const Watchpoint& watchpoint, const WatchHit& hit) {
  WatchFinding finding = watch_finding(dump, watchpoint, hit.tensor);
  finding.previous_step = hit.previous_step;
  finding.parameters = judged_values(hit);
  finding.detail = hit.hit ? detail_of(hit) : reason_of(hit);
  return finding;
}

}  // namespace

Result<WatchFindings> watch(const Dump& dump, const WatchQuestion& question, const DumpWatchOptions& limits) {
  if (question.conditions.empty() && !question.recommended) {
    return Error{ErrorCode::invalid_argument, "no condition: name one, or ask for the recommended ones"};
  }
  const std::optional<WatchSelection::Sides> sides = sides_of_word(question.side);
  if (!sides) {
    return Error{ErrorCode::invalid_argument, "side: 'input', 'output' or 'both', not '" + question.side + "'"};
  }
  const Result<StepSet> steps = parse_steps(question.step);
  if (!steps) return steps.error();
  const Result<std::vector<WatchCondition>> conditions = parse_conditions(question.conditions);
  if (!conditions) return conditions.error();
  const Result<std::vector<std::size_t>> tensors = dump.select_tensors(selection_of(question));
  if (!tensors) return tensors.error();
  const Catalog& catalog = DumpAccess::catalog(dump);
  std::set<TensorPlace> chosen;
  for (const std::size_t tensor : *tensors) {
    const TensorPlace place = DumpAccess::place_of(dump, tensor);
    if (steps->contains(catalog.ranks[place.rank].steps[place.step].id.number)) chosen.insert(place);
  }
  if (chosen.empty()) return Error{ErrorCode::invalid_argument, "the selection chooses no tensor"};
  const Lock lock(DumpAccess::mutex(dump));
  WatchFindings out;
  WatchSelection selection;
  selection.sides = *sides;
  selection.takes_tensor = [&](const TensorPlace& place) { return chosen.contains(place); };
  const Result<std::vector<Watchpoint>> watchpoints =
      make_watchpoints(catalog, *conditions, question.recommended, selection, out.notes);
  if (!watchpoints) return watchpoints.error();
  WatchOptions how;
  how.most_bytes = limits.most_bytes;
  how.error_on_no_value = limits.error_on_no_value;
  const WatchReport report = check_watchpoints(catalog, *watchpoints, how);
  for (const WatchHit& hit : report.hits) {
    (hit.hit ? out.hits : out.not_judged).push_back(watch_finding(dump, (*watchpoints)[hit.watchpoint], hit));
  }
  for (const WatchGap& gap : report.gaps) {
    out.not_judged.push_back(watch_finding(dump, (*watchpoints)[gap.watchpoint], gap.tensor));
    out.not_judged.back().detail = gap.reason;
  }
  out.notes.insert(out.notes.end(), report.notes.begin(), report.notes.end());
  for (const CatalogProblem& problem : report.problems) out.problems.push_back({problem.path, problem.message});
  const std::vector<std::string> ends = early_ends(catalog, {*steps, std::nullopt, std::nullopt, ""});
  out.notes.insert(out.notes.end(), ends.begin(), ends.end());
  if (!question.rank) std::ranges::move(rank_notes(catalog), std::back_inserter(out.notes));
  out.complete =
      !catalog.has_lost() && ends.empty() && out.problems.empty() && out.not_judged.empty() && report.tensors > 0;
  return out;
}

std::string json_text_of(const WatchFindings& findings) { return text_of_json(document_of(findings)); }

// --- convert ---------------------------------------------------------------------------------------------------------

Result<ConvertedFiles> convert(std::span<const std::filesystem::path> paths, const std::filesystem::path& out,
                               const ConvertQuestion& question) {
  Result<ConvertSpec> spec = convert_spec(question);
  if (!spec) return spec.error();
  const Result<std::vector<ConvertTask>> tasks = find_convert_tasks(paths, out);
  if (!tasks) return tasks.error();
  std::vector<Converted> results(tasks->size());
  convert_files(*tasks, *spec, [&](std::size_t task, Converted&& converted) { results[task] = std::move(converted); });
  ConvertedFiles conversion;
  for (std::size_t i = 0; i < tasks->size(); ++i) add_converted((*tasks)[i], results[i], conversion);
  return conversion;
}

std::string json_text_of(const ConvertedFiles& conversion) { return text_of_json(document_of(conversion)); }

}  // namespace sonde
