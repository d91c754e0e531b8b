// The public face of a catalog (sonde/dump.h): its ops and tensors numbered throughout.
#include "sonde/dump.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

#include "ask/convert/convert.h"
#include "ask/convert/converted_names.h"
#include "ask/watch/watchpoints.h"
#include "dump/formats/tensor_file.h"
#include "dump/graph/source_text.h"
#include "face/api/dump_access.h"
#include "ground/base/mutex.h"
#include "ground/base/text.h"
#include "ground/files/brought_files.h"
#include "read/catalog/catalog.h"
#include "read/catalog/missing_ranks.h"
#include "read/catalog/op_matchers.h"
#include "read/catalog/select.h"
#include "read/catalog/slot_text.h"
#include "read/catalog/step_graph.h"
#include "read/index/index.h"
#include "read/measure/find_flow.h"
#include "read/measure/measure.h"
#include "read/measure/values.h"

namespace sonde {
namespace {

DumpSource source_of(const SourceLine& line) { return {line.file, line.function, line.line}; }

// The position of an op in the catalog.
struct OpPlace {
  std::uint32_t rank = 0, step = 0;  // step: of all ranks
  CatalogOp* op = nullptr;
  std::size_t first_tensor = 0;
};

struct StepPlace {
  std::uint32_t rank = 0;
  CatalogStep* step = nullptr;
  std::size_t first_op = 0;
};

template <typename T>
bool allows(const std::vector<T>& chosen, T value) {
  return chosen.empty() || std::ranges::find(chosen, value) != chosen.end();
}

// Decides whether an op is selected.
class OpFilter {
 public:
  explicit OpFilter(const DumpSelection& selection) : selection_(selection) {}

  Status compile() {
    if (!selection_.source.empty()) source_.emplace(selection_.source, SourceMatcher::In::place);
    if (selection_.op.empty()) return {};
    Result<NameMatcher> pattern = NameMatcher::create(selection_.op);
    if (!pattern) return Error{pattern.error().code, "cannot select ops: " + pattern.error().message};
    pattern_ = std::move(*pattern);
    return {};
  }

  bool has_name() const { return pattern_ || !selection_.type.empty(); }
  // A check before an op is read. Results are not cached: these texts are not the catalog's.
  bool may_take(std::string_view name, std::string_view type) const {
    return (selection_.type.empty() || same_ignoring_case(selection_.type, type)) &&
           (!pattern_ || pattern_->matches(name));
  }

  bool operator()(const CatalogRank& rank, const CatalogOp& op) {
    if (!selection_.type.empty() && !same_ignoring_case(selection_.type, op.op_type)) return false;
    if (pattern_ && !pattern_->matches(op)) return false;
    return !source_ || source_->matches(rank, op);
  }

 private:
  const DumpSelection& selection_;
  std::optional<NameMatcher> pattern_;
  std::optional<SourceMatcher> source_;
};

CatalogQuery query_of(const DumpSelection& only, OpFilter& filter) {
  CatalogQuery query;
  if (only.ranks.size() == 1) query.rank = only.ranks[0];
  if (only.graphs.size() == 1) query.graph = only.graphs[0];
  if (!only.steps.empty()) query.steps = [&](std::uint64_t step) { return allows(only.steps, step); };
  if (filter.has_name())
    query.ops = [&](std::string_view name, std::string_view type) { return filter.may_take(name, type); };
  return query;
}

void leave_out(Catalog& catalog, const DumpSelection& only, OpFilter& filter) {
  for (CatalogRank& rank : catalog.ranks) {
    for (CatalogStep& step : rank.steps) {
      if (allows(only.ranks, rank.rank) && allows(only.graphs, step.id.graph) && allows(only.steps, step.id.number)) {
        if (filter.has_name() || !only.source.empty())
          std::erase_if(step.ops, [&](const CatalogOp& op) { return !filter(rank, op); });
      } else {
        step.ops.clear();
      }
    }
  }
}

bool selects(const DumpSelection& selection, const CatalogTensor& tensor) {
  return (!selection.inputs || *selection.inputs == tensor.is_input) && allows(selection.slots, tensor.slot);
}

}  // namespace

struct DumpValues::State {
  explicit State(TensorFile opened) : file(std::move(opened)) {}
  TensorFile file;
};

DType DumpValues::dtype() const { return state_->file.dtype(); }
TensorView DumpValues::view() const { return state_->file.view(); }

void DumpValues::copy_as_float32(float* out) const {
  const TensorView tensor = view();
  std::vector<std::byte> copy;
  TensorView dense = tensor;
  if (!tensor.is_c_contiguous()) {
    copy.resize(tensor.bytes());
    copy_c_order(tensor, copy.data());
    dense.data = copy.data();
  }
  const std::int64_t elements = tensor.elements();
  // One byte has few values: a table of them instead of a conversion each.
  if (info(dense.dtype).item_bytes == 1 && elements > 256) {
    std::array<std::uint8_t, 256> codes;
    std::array<float, 256> table;
    for (std::size_t code = 0; code < 256; ++code) codes[code] = static_cast<std::uint8_t>(code);
    TensorView all = dense;
    all.data = reinterpret_cast<const std::byte*>(codes.data());
    for (std::size_t code = 0; code < 256; ++code) table[code] = static_cast<float>(element_value(all, code));
    for (std::int64_t i = 0; i < elements; ++i) out[i] = table[static_cast<std::uint8_t>(dense.data[i])];
    return;
  }
  for (std::int64_t i = 0; i < elements; ++i) out[i] = static_cast<float>(element_value(dense, i));
}

struct Dump::State {
  Catalog catalog;
  std::vector<DumpProblem> problems;
  std::vector<StepPlace> steps;
  std::vector<std::uint32_t> first_step;  // of each rank
  std::vector<OpPlace> ops;
  std::vector<std::uint32_t> op_of_tensor;

  Mutex mutex;  // what is measured and read later, in the catalog too
  Measurer measurer GUARDED_BY(mutex);
  std::map<std::uint32_t, SourceTexts> sources GUARDED_BY(mutex);  // by rank

  void number();
  CatalogRank& rank_of(std::size_t op) { return catalog.ranks[ops.at(op).rank]; }
  CatalogTensor& tensor(std::size_t index) REQUIRES(mutex) {
    const OpPlace& place = ops.at(op_of_tensor.at(index));
    return place.op->tensors.at(index - place.first_tensor);
  }
  Status measure(std::size_t index) REQUIRES(mutex);
  DumpTensor describe(std::size_t index) REQUIRES(mutex);
  TensorPlace place_of(std::size_t tensor) const;
  std::size_t index_of(const TensorPlace& place) const;
};

TensorPlace Dump::State::place_of(std::size_t tensor) const {
  const std::uint32_t op = op_of_tensor.at(tensor);
  const OpPlace& place = ops[op];
  return {place.rank, place.step - first_step[place.rank], static_cast<std::uint32_t>(op - steps[place.step].first_op),
          static_cast<std::uint32_t>(tensor - place.first_tensor)};
}

std::size_t Dump::State::index_of(const TensorPlace& place) const {
  return ops[steps[first_step[place.rank] + place.step].first_op + place.op].first_tensor + place.tensor;
}

void Dump::State::number() {
  for (std::uint32_t rank = 0; rank < catalog.ranks.size(); ++rank) {
    first_step.push_back(static_cast<std::uint32_t>(steps.size()));
    for (CatalogStep& step : catalog.ranks[rank].steps) {
      const auto number = static_cast<std::uint32_t>(steps.size());
      steps.push_back({rank, &step, ops.size()});
      for (CatalogOp& op : step.ops) {
        const auto index = static_cast<std::uint32_t>(ops.size());
        ops.push_back({rank, number, &op, op_of_tensor.size()});
        op_of_tensor.insert(op_of_tensor.end(), op.tensors.size(), index);
      }
    }
  }
  for (const CatalogProblem& problem : catalog.problems) problems.push_back({problem.path, problem.message});
}

// The caller holds the lock.
Status Dump::State::measure(std::size_t index) {
  CatalogTensor& wanted = tensor(index);
  if (wanted.statistics) return {};
  if (wanted.file.empty()) {
    const CatalogOp& op = *ops[op_of_tensor[index]].op;
    return Error{ErrorCode::not_found, "the dump has neither values nor statistics of " + name_of(op, wanted) +
                                           (wanted.skipped.empty() ? "" : ": " + std::string(wanted.skipped))};
  }
  Status done = measurer.measure(rank_of(op_of_tensor[index]), wanted);
  if (!done) return done;
  if (wanted.statistics) return {};
  return Error{ErrorCode::unsupported, "no statistics of complex numbers: " + std::string(wanted.file)};
}

// The caller holds the lock.
DumpTensor Dump::State::describe(std::size_t index) {
  const CatalogTensor& from = tensor(index);
  DumpTensor out;
  out.meta() = from;
  out.index = index;
  out.op = op_of_tensor[index];
  out.parameter = from.parameter;
  out.key = from.key;
  out.placement = from.placement;
  out.tensor_file = from.file;
  out.skipped = from.skipped;
  out.md5 = from.md5;
  out.sha1 = from.sha1;
  out.has_statistics = from.statistics.has_value();
  if (out.timestamp_us == 0) out.timestamp_us = ops[out.op].op->timestamp_us;
  return out;
}

Result<Dump> Dump::open_version(const std::filesystem::path& path, const DumpSelection& only, std::uint32_t version) {
  if (version != kDumpApiVersion) {
    return Error{ErrorCode::unsupported, "libsonde.so knows version " + std::to_string(kDumpApiVersion) +
                                             " of sonde/dump.h, the program was built with " + std::to_string(version)};
  }
  OpFilter filter(only);
  if (const Status good = filter.compile(); !good) return good.error();
  Result<Catalog> catalog = open_catalog(path, query_of(only, filter));
  if (!catalog) return catalog.error();
  auto state = std::make_shared<State>();
  state->catalog = *std::move(catalog);
  leave_out(state->catalog, only, filter);  // an index may give more than it was asked for
  state->number();
  return Dump(std::move(state));
}

const std::filesystem::path& Dump::path() const { return state_->catalog.path; }

std::vector<std::uint32_t> Dump::ranks() const {
  std::vector<std::uint32_t> numbers;
  for (const CatalogRank& rank : state_->catalog.ranks) numbers.push_back(rank.rank);
  return numbers;
}

const std::filesystem::path& Dump::directory(std::uint32_t rank) const {
  for (const CatalogRank& known : state_->catalog.ranks) {
    if (known.rank == rank) return known.directory;
  }
  return state_->catalog.path;
}

std::span<const DumpProblem> Dump::problems() const { return state_->problems; }
std::vector<std::string> Dump::notes() const { return rank_notes(state_->catalog); }
std::size_t Dump::step_count() const { return state_->steps.size(); }
std::size_t Dump::op_count() const { return state_->ops.size(); }
std::size_t Dump::tensor_count() const { return state_->op_of_tensor.size(); }

DumpStep Dump::step(std::size_t index) const {
  const StepPlace& place = state_->steps.at(index);
  const CatalogStep& step = *place.step;
  return {state_->catalog.ranks[place.rank].rank,
          step.id.graph,
          step.id.number,
          place.first_op,
          step.ops.size(),
          step.ended,
          step.directory};
}

DumpOp Dump::op(std::size_t index) const {
  const OpPlace& place = state_->ops.at(index);
  const CatalogOp& from = *place.op;
  DumpOp op;
  op.index = index;
  op.step = place.step;
  op.first_tensor = place.first_tensor;
  op.tensors = from.tensors.size();
  op.op_name = from.op_name;
  op.op_type = from.op_type;
  op.sequence = from.sequence;
  op.phase = word_of(from.phase);
  op.source = {from.source_file, from.function, from.line};
  op.is_parameter = from.is_parameter;
  op.failed = from.failed;
  op.timestamp_us = from.timestamp_us;
  op.call_number = from.call_number;
  return op;
}

DumpTensor Dump::tensor(std::size_t index) const {
  const Lock lock(state_->mutex);
  return state_->describe(index);
}

Result<std::vector<std::size_t>> Dump::select_ops(const DumpSelection& selection) const {
  OpFilter filter(selection);
  if (const Status good = filter.compile(); !good) return good.error();
  const bool by_tensor = selection.inputs || !selection.slots.empty();
  std::vector<std::size_t> selected;
  for (const StepPlace& place : state_->steps) {
    const CatalogRank& rank = state_->catalog.ranks[place.rank];
    const CatalogStep& step = *place.step;
    if (!allows(selection.ranks, rank.rank) || !allows(selection.graphs, step.id.graph) ||
        !allows(selection.steps, step.id.number))
      continue;
    for (std::size_t i = 0; i < step.ops.size(); ++i) {
      const CatalogOp& op = step.ops[i];
      const auto wanted = [&](const CatalogTensor& tensor) { return selects(selection, tensor); };
      if (filter(rank, op) && (!by_tensor || std::ranges::any_of(op.tensors, wanted)))
        selected.push_back(place.first_op + i);
    }
  }
  return selected;
}

Result<std::vector<std::size_t>> Dump::select_tensors(const DumpSelection& selection) const {
  const Result<std::vector<std::size_t>> ops = select_ops(selection);
  if (!ops) return ops.error();
  std::vector<std::size_t> selected;
  for (const std::size_t op : *ops) {
    const OpPlace& place = state_->ops[op];
    for (std::size_t i = 0; i < place.op->tensors.size(); ++i) {
      if (selects(selection, place.op->tensors[i])) selected.push_back(place.first_tensor + i);
    }
  }
  return selected;
}

std::vector<DumpSource> Dump::trace(std::size_t op) const {
  const CatalogOp& from = *state_->ops.at(op).op;
  std::vector<DumpSource> lines;
  if (from.trace != nullptr) {
    for (const SourceLine& line : *from.trace) lines.push_back(source_of(line));
  } else if (!from.source_file.empty()) {
    lines.push_back({from.source_file, from.function, from.line});
  }
  return lines;
}

std::vector<std::pair<std::string, std::string>> Dump::attributes(std::size_t op) const {
  std::vector<std::pair<std::string, std::string>> texts;
  const std::vector<Attribute>* attributes = state_->ops.at(op).op->attributes;
  if (attributes == nullptr) return texts;
  for (const Attribute& attribute : *attributes) texts.emplace_back(attribute.name, text_of(attribute));
  return texts;
}

std::string Dump::code(std::size_t op, std::string_view file, std::uint32_t line) const {
  const std::uint32_t rank = state_->ops.at(op).rank;
  const Lock lock(state_->mutex);
  auto at = state_->sources.find(rank);
  if (at == state_->sources.end()) at = state_->sources.emplace(rank, sources_of(state_->catalog.ranks[rank])).first;
  return std::string(at->second.line(std::string(file), line));
}

std::vector<DumpEdge> Dump::edges(std::size_t step) const {
  const StepPlace& place = state_->steps.at(step);
  const Lock lock(state_->mutex);
  find_flow(state_->catalog.ranks[place.rank], *place.step);
  const StepGraph graph = graph_of(state_->catalog.ranks[place.rank], *place.step);
  const CatalogOp* first = place.step->ops.data();
  const auto number = [&](std::uint32_t node) {
    return place.first_op + static_cast<std::size_t>(graph.ops[node] - first);
  };
  std::vector<DumpEdge> edges;
  edges.reserve(graph.edges.size());
  for (const Edge& edge : graph.edges) {
    DumpEdge& out = edges.emplace_back();
    out.from_parameter = edge.from_parameter;
    if (edge.from_parameter)
      out.parameter = graph.graph.parameters[edge.from].name;
    else
      out.from = number(edge.from);
    out.from_slot = edge.from_slot;
    out.to = number(edge.to);
    out.to_slot = edge.to_slot;
  }
  return edges;
}

Result<DumpTensor> Dump::look(std::size_t index) const {
  const Lock lock(state_->mutex);
  CatalogTensor& tensor = state_->tensor(index);
  const Status looked = look_at_file(state_->rank_of(state_->op_of_tensor[index]), tensor);
  if (!looked) return looked.error();
  return state_->describe(index);
}

std::optional<KnownStatistics> Dump::known_statistics(std::size_t tensor) const {
  const Lock lock(state_->mutex);
  return state_->tensor(tensor).statistics;
}

Result<KnownStatistics> Dump::statistics(std::size_t tensor) const {
  const Lock lock(state_->mutex);
  if (const Status done = state_->measure(tensor); !done) return done.error();
  return *state_->tensor(tensor).statistics;
}

std::vector<DumpProblem> Dump::measure(std::span<const std::size_t> tensors) const {
  const Lock lock(state_->mutex);
  std::vector<MeasureTask> tasks;
  for (const std::size_t index : tensors) {
    CatalogTensor& tensor = state_->tensor(index);
    if (!tensor.statistics && !tensor.file.empty())
      tasks.push_back({&state_->rank_of(state_->op_of_tensor[index]), &tensor});
  }
  const std::vector<std::string> messages = measure_all(tasks);
  // Complex numbers have none, which is not an error.
  std::erase_if(tasks,
                [](const MeasureTask& task) { return task.tensor->statistics || is_complex(task.tensor->dtype); });
  std::vector<DumpProblem> problems;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool known = messages.size() == tasks.size();
    problems.push_back({known ? tasks[i].rank->directory / tasks[i].tensor->file : path(), messages[i]});
  }
  return problems;
}

Result<DumpValues> Dump::values(std::size_t index) const {
  TensorSpec spec;
  std::filesystem::path path;
  {
    const Lock lock(state_->mutex);
    const CatalogTensor& tensor = state_->tensor(index);
    const OpPlace& place = state_->ops[state_->op_of_tensor[index]];
    if (tensor.file.empty())
      return Error{ErrorCode::not_found, "the dump has no values of " + name_of(*place.op, tensor) +
                                             (tensor.skipped.empty() ? "" : ": " + std::string(tensor.skipped))};
    spec = spec_of(tensor);
    path = state_->catalog.ranks[place.rank].directory / tensor.file;
  }
  Result<TensorFile> file = TensorFile::open(path, spec);
  if (!file) return file.error();
  DumpValues values;
  values.state_ = std::make_shared<const DumpValues::State>(*std::move(file));
  return values;
}

DumpConverted Dump::convert_to_host(const std::filesystem::path& file) {
  ConvertSpec spec;
  spec.format = Format::nchw;
  spec.type = ConvertedType::msnpy;
  spec.name = LongNames().of(file);
  const Converted converted = convert_file(file, file.parent_path(), spec);
  DumpConverted result;
  for (const ConvertedFile& written : converted.written) result.written.push_back(written.path);
  for (const LostTensor& lost : converted.lost) result.failed.push_back(lost.message);
  return result;
}

Status Dump::check_condition(const std::string& condition, std::span<const std::pair<std::string, double>> parameters) {
  const Result<WatchCondition> made = make_condition(condition, parameters);
  if (!made) return made.error();
  return {};
}

void Dump::add_file_source(const std::filesystem::path& root, FileSource source) {
  sonde::add_file_source(root, "", std::move(source));
}

std::vector<std::string_view> Dump::watch_errors(std::uint32_t error_code) { return error_messages(error_code); }

Result<std::vector<std::uint64_t>> Dump::listed(std::string_view what, std::string_view list,
                                                std::span<const std::uint64_t> numbers) {
  const Result<StepSet> set = parse_step_list(what, list);
  if (!set) return set.error();
  std::vector<std::uint64_t> chosen;
  std::ranges::copy_if(numbers, std::back_inserter(chosen),
                       [&](std::uint64_t number) { return set->contains(number); });
  return chosen;
}

bool Dump::pattern_selects(std::string_view pattern, std::string_view op_name, std::string_view op_type) {
  return sonde::selects(pattern, op_name, op_type);
}

const Catalog& DumpAccess::catalog(const Dump& dump) { return dump.state_->catalog; }

TensorPlace DumpAccess::place_of(const Dump& dump, std::size_t tensor) { return dump.state_->place_of(tensor); }

std::size_t DumpAccess::index_of(const Dump& dump, const TensorPlace& place) { return dump.state_->index_of(place); }

Mutex& DumpAccess::mutex(const Dump& dump) { return dump.state_->mutex; }

Result<DumpWatchReport> Dump::watch(std::span<const DumpWatchpoint> watchpoints,
                                    const DumpWatchOptions& options) const {
  std::vector<Watchpoint> asked;
  for (const DumpWatchpoint& watchpoint : watchpoints) {
    const Result<WatchCondition> condition = make_condition(watchpoint.condition, watchpoint.parameters);
    if (!condition) return condition.error();
    Watchpoint& to = asked.emplace_back();
    to.condition = *condition;
    for (const std::size_t tensor : watchpoint.tensors) to.tensors.push_back(state_->place_of(tensor));
  }
  WatchOptions how;
  how.most_bytes = options.most_bytes;
  how.error_on_no_value = options.error_on_no_value;
  const Lock lock(state_->mutex);
  WatchReport found = check_watchpoints(state_->catalog, asked, how);
  DumpWatchReport report;
  report.notes = std::move(found.notes);
  for (const WatchHit& hit : found.hits) {
    DumpHit& to = report.hits.emplace_back();
    to.watchpoint = hit.watchpoint;
    to.tensor = state_->index_of(hit.tensor);
    to.hit = hit.hit;
    to.error_code = hit.error_code;
    to.previous_step = hit.previous_step;
    for (const WatchParameter& parameter : hit.parameters)
      to.parameters.push_back({parameter.parameter->name, parameter.value, parameter.actual, parameter.hit,
                               parameter.at_least, parameter.at_most});
  }
  for (WatchGap& gap : found.gaps)
    report.gaps.push_back({gap.watchpoint, state_->index_of(gap.tensor), std::move(gap.reason)});
  return report;
}

}  // namespace sonde
