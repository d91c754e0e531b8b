// The analyses behind sonde/findings.h: options are checked, the dump is locked, a room does the work.
#include "sonde/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/dump_access.h"
#include "catalog/select.h"
#include "compare/compare.h"
#include "compare/name_map.h"
#include "convert/convert_files.h"
#include "first_bad/first_bad.h"
#include "report/comparison.h"
#include "report/first_bad.h"
#include "report/stomp.h"
#include "stomp/memory_stomp.h"

namespace sonde {
namespace {

struct Part {
  IterationSet steps = IterationSet::all();
  std::optional<std::uint32_t> graph, rank;
};

Result<IterationSet> steps_of(const std::string& text) {
  if (text.empty()) return IterationSet::all();
  if (is_step_list(text)) return IterationSet::parse(text);
  return Error{ErrorCode::invalid_argument, fmt::format("steps '{}': expected a list such as 3, 0-5 or 1|4", text)};
}

// The part of the dump that the options name; an error where they name nothing.
Result<Part> part_of(const Catalog& catalog, const AnalysisOptions& options) {
  Part part;
  part.graph = options.graph;
  part.rank = options.rank;
  const Result<IterationSet> steps = steps_of(options.steps);
  if (!steps) return steps.error();
  part.steps = *steps;
  const bool any = std::ranges::any_of(catalog.ranks, [&](const CatalogRank& rank) {
    return (!part.rank || *part.rank == rank.rank) && std::ranges::any_of(rank.steps, [&](const CatalogStep& step) {
             return (!part.graph || *part.graph == step.id.graph) && part.steps.contains(step.id.number);
           });
  });
  if (any) return part;
  return Error{ErrorCode::invalid_argument, fmt::format("'{}' has no such step, graph or rank", catalog.path.string())};
}

std::string document(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

Result<FirstBad> first_bad(const Dump& dump, const AnalysisOptions& options) {
  const std::lock_guard lock(DumpAccess::mutex(dump));
  const Catalog& catalog = DumpAccess::catalog(dump);
  const Result<Part> part = part_of(catalog, options);
  if (!part) return part.error();
  FirstBadOptions wanted;
  wanted.steps = part->steps;
  wanted.graph = part->graph;
  wanted.rank = part->rank;
  wanted.threads = static_cast<unsigned>(options.threads);
  return first_bad(catalog, wanted);
}

std::string text_of(const FirstBad& report) { return text_of(report, 0); }
std::string json_text_of(const FirstBad& report) { return document(json_of(report)); }

Result<StompReport> stomp(const Dump& dump, const AnalysisOptions& options) {
  const std::lock_guard lock(DumpAccess::mutex(dump));
  const Catalog& catalog = DumpAccess::catalog(dump);
  const Result<Part> part = part_of(catalog, options);
  if (!part) return part.error();
  return memory_stomp(catalog, {part->steps, part->graph, part->rank});
}

std::string json_text_of(const StompReport& report) { return document(json_of(report)); }

// --- compare ---------------------------------------------------------------------------------------------------------

struct Comparison::State {
  Dump target, golden;  // the comparison points into their catalogs
  CompareOptions options;
  DumpComparison found;
  std::vector<DumpDifference> findings;
  std::vector<std::pair<std::string, std::size_t>> summary;

  template <typename Body>
  auto locked(const Body& body) const {
    std::mutex &first = DumpAccess::mutex(target), &second = DumpAccess::mutex(golden);
    if (&first == &second) {  // a dump compared with itself
      const std::scoped_lock lock(first);
      return body();
    }
    const std::scoped_lock lock(first, second);
    return body();
  }
};

namespace {

DumpDifference difference_of(const DumpComparison& comparison, const CompareFinding& finding) {
  const ComparedStep& step = comparison.steps[finding.step];
  DumpDifference out;
  out.kind = word_of(finding.kind);
  out.rank = step.target->rank->rank;
  out.step = step.target->step->id;
  out.op = finding.culprit->op_name;
  out.op_type = finding.culprit->op_type;
  out.source_file = finding.culprit->source_file;
  out.source_line = finding.culprit->line;
  out.in_golden = finding.in_golden;
  out.uncertain = finding.uncertain;
  out.text = line_of(comparison, finding);
  return out;
}

}  // namespace

Result<Comparison> compare(const Dump& target, const Dump& golden, const ComparisonOptions& options) {
  auto state = std::make_shared<Comparison::State>(Comparison::State{target, golden, {}, {}, {}, {}});
  CompareOptions& wanted = state->options;
  wanted.tolerance = {options.rtol, options.atol};
  wanted.threads = options.threads;
  wanted.rank = options.rank;
  wanted.graph = options.graph;
  const Result<IterationSet> steps = steps_of(options.steps);
  if (!steps) return steps.error();
  wanted.steps = *steps;
  if (!options.mapping.empty()) {
    Result<NameMap> names = read_mapping(options.mapping);
    if (!names) return names.error();
    wanted.names = std::move(*names);
  }
  const Status status = state->locked([&]() -> Status {
    Result<DumpComparison> found = compare_dumps(DumpAccess::catalog(target), DumpAccess::catalog(golden), wanted);
    if (!found) return found.error();
    state->found = std::move(*found);
    return {};
  });
  if (!status) return status.error();
  for (const CompareFinding& finding : state->found.findings) {
    state->findings.push_back(difference_of(state->found, finding));
  }
  const VerdictCounts counts = count_verdicts(state->found);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    state->summary.emplace_back(word_of(static_cast<OpVerdict>(i)), counts[i]);
  }
  Comparison comparison;
  comparison.state_ = std::move(state);
  return comparison;
}

const std::vector<DumpDifference>& Comparison::findings() const { return state_->findings; }
const std::vector<std::pair<std::string, std::size_t>>& Comparison::summary() const { return state_->summary; }
const std::vector<std::string>& Comparison::notes() const { return state_->found.notes; }
bool Comparison::complete() const { return state_->found.complete; }

std::vector<std::string> Comparison::left_out() const {
  std::vector<std::string> all = state_->found.left_out;
  all.insert(all.end(), state_->found.unreadable.begin(), state_->found.unreadable.end());
  return all;
}

std::string Comparison::text(bool all) const {
  return state_->locked([&] {
    std::string text = report_of(state_->found, state_->options, all);
    return all ? text + table_of(state_->found, 0) : text;
  });
}

std::string Comparison::json() const {
  return state_->locked([&] {
    Json json = json_of(state_->found, state_->options);
    Json ops = Json::array();
    for_each_op(state_->found, [&](const Json& op) { ops.push_back(op); });
    json["ops"] = std::move(ops);
    return document(json);
  });
}

std::string Comparison::csv() const {
  return state_->locked([&] { return csv_of(state_->found); });
}
std::string Comparison::junit() const {
  return state_->locked([&] { return junit_of(state_->found); });
}

// --- watch -----------------------------------------------------------------------------------------------------------

namespace {

WatchFinding watch_finding(const Dump& dump, const Watchpoint& watchpoint, const TensorPlace& place) {
  const CatalogRank& rank = DumpAccess::catalog(dump).ranks[place.rank];
  const CatalogStep& step = rank.steps[place.step];
  const CatalogOp& op = step.ops[place.op];
  const CatalogTensor& tensor = op.tensors[place.tensor];
  WatchFinding finding;
  finding.condition = watchpoint.condition.info->id;
  finding.tensor = DumpAccess::index_of(dump, place);
  finding.rank = rank.rank;
  finding.step = step.id;
  finding.op = op.op_name;
  finding.is_input = tensor.is_input;
  finding.slot = tensor.slot;
  return finding;
}

WatchFinding watch_finding(const Dump& dump, const Watchpoint& watchpoint, const WatchHit& hit) {
  WatchFinding finding = watch_finding(dump, watchpoint, hit.tensor);
  finding.previous_step = hit.previous_step;
  for (const WatchParameter& parameter : hit.parameters) {
    finding.parameters.push_back({parameter.parameter->name, parameter.value, parameter.actual, parameter.hit});
  }
  if (hit.hit) {
    finding.detail = detail_of(hit);
  } else {
    for (const std::string_view message : error_messages(hit.error_code)) {
      finding.detail += (finding.detail.empty() ? "" : " ") + std::string(message);
    }
  }
  return finding;
}

// The conditions, each with those of the chosen tensors that it may be asked of.
Result<std::vector<Watchpoint>> watchpoints_of(const Catalog& catalog, const WatchSettings& settings,
                                               const std::set<TensorPlace>& chosen, std::vector<std::string>& notes) {
  WatchSelection selection;
  using enum WatchSelection::Sides;
  selection.sides = settings.selection.inputs.value_or(false) ? inputs : outputs;
  std::vector<Watchpoint> watchpoints;
  if (settings.recommended) watchpoints = recommended_watchpoints(catalog, selection);
  for (const std::string& text : settings.conditions) {
    Result<WatchCondition> condition = parse_condition(text);
    if (!condition) return condition.error();
    WatchSelection own = selection;
    own.category = condition->info->target;
    watchpoints.push_back({"", std::move(*condition), select_watched(catalog, own)});
  }
  for (Watchpoint& watchpoint : watchpoints) {
    std::erase_if(watchpoint.tensors, [&](const TensorPlace& place) { return !chosen.contains(place); });
    if (watchpoint.tensors.empty()) {
      notes.push_back(fmt::format("condition '{}' has no recorded tensor to watch", watchpoint.condition.info->id));
    }
  }
  return watchpoints;
}

}  // namespace

Result<WatchFindings> watch(const Dump& dump, const WatchSettings& settings) {
  if (settings.conditions.empty() && !settings.recommended) {
    return Error{ErrorCode::invalid_argument, "no condition: name one, or ask for the recommended ones"};
  }
  const Result<IterationSet> steps = steps_of(settings.steps);
  if (!steps) return steps.error();
  const Result<std::vector<std::size_t>> tensors = dump.select_tensors(settings.selection);
  if (!tensors) return tensors.error();
  const Catalog& catalog = DumpAccess::catalog(dump);
  std::set<TensorPlace> chosen;
  for (const std::size_t tensor : *tensors) {
    const TensorPlace place = DumpAccess::place_of(dump, tensor);
    if (steps->contains(catalog.ranks[place.rank].steps[place.step].id.number)) chosen.insert(place);
  }
  if (chosen.empty()) return Error{ErrorCode::invalid_argument, "the selection chooses no tensor"};
  const std::lock_guard lock(DumpAccess::mutex(dump));
  WatchFindings out;
  const Result<std::vector<Watchpoint>> watchpoints = watchpoints_of(catalog, settings, chosen, out.notes);
  if (!watchpoints) return watchpoints.error();
  WatchOptions how;
  how.most_bytes = settings.limits.most_bytes;
  how.error_on_no_value = settings.limits.error_on_no_value;
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
  out.complete = !catalog.has_lost() && out.problems.empty() && out.not_judged.empty() && report.tensors > 0;
  return out;
}

// --- convert ---------------------------------------------------------------------------------------------------------

Result<ConvertedFiles> convert(std::span<const std::filesystem::path> paths, const std::filesystem::path& out,
                               const ConversionOptions& options) {
  Result<ConvertSpec> spec = convert_spec(options);
  if (!spec) return spec.error();
  std::vector<ConvertTask> tasks;
  LongNames names;
  for (const std::filesystem::path& path : paths) {
    const Status found = find_convert_tasks(path, out, names, tasks);
    if (!found) return found.error();
  }
  std::vector<Converted> results(tasks.size());
  convert_files(tasks, *spec, [&](std::size_t task, Converted&& converted) { results[task] = std::move(converted); });
  ConvertedFiles conversion;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const ConvertedFile& file : results[i].written) {
      conversion.files.push_back({tasks[i].file, file.path, file.bytes});
    }
    for (const LostTensor& lost : results[i].lost) conversion.lost.push_back({tasks[i].file, lost.message});
    conversion.notes.insert(conversion.notes.end(), results[i].notes.begin(), results[i].notes.end());
  }
  return conversion;
}

}  // namespace sonde
