#include "dump/run_files/graph_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "dump/graph/ir_text.h"
#include "dump/graph/model_proto.h"
#include "dump/run_files/grown.h"
#include "ground/files/mapped_file.h"
#include "ground/files/safe_path.h"
#include "ground/tensor/mix.h"

namespace sonde {
namespace {

constexpr std::string_view kOrderHeader = "NodeExecutionOrder-FullNameWithScope\n";
constexpr std::string_view kTableHeader = "step,graph_of_step\n";
constexpr std::uint64_t kLongestSource = 16 << 20;  // bytes; longer ones are data, not code

// Only for existing files: a notebook's cell has a name and no file.
std::optional<std::string> read_source(const std::string& file) {
  Result<std::string> text = read_whole_file(file, kLongestSource);
  return text ? std::optional(std::move(*text)) : std::nullopt;
}

IrGrammar grammar_of(Release release) {
  if (release < Release::v2_0) return IrGrammar::v1_2;
  if (release == Release::v2_0) return IrGrammar::v2_0;
  return release < Release::v2_7 ? IrGrammar::v2_3 : IrGrammar::v2_7;
}

// Keeps the part of a trace, innermost first, that the `.ir` shows.
void shorten(std::vector<SourceLine>& trace, SourceLines lines) {
  if (lines == SourceLines::none) trace.clear();
  if (lines == SourceLines::top && trace.size() > 1) trace.resize(1);
}

}  // namespace

GraphFiles::GraphFiles(const Layout& layout, int rank, int aside, SourceLines lines, bool with_sources)
    : layout_(layout),
      rank_(rank),
      aside_(aside),
      lines_(lines),
      with_sources_(with_sources),
      sources_(with_sources ? read_source : [](const std::string&) { return std::optional<std::string>(); }) {}

void GraphFiles::define(const Site& site) {
  for (const SourceLine& line : site.trace) {
    if (!line.file.empty() && sources_seen_.insert(line.file).second) sources_to_write_.push_back(line.file);
  }
  grown(sites_, site.id) = site;
}

void GraphFiles::define(const OpName& name) { grown(names_, name.id) = name; }

void GraphFiles::define(const Attributes& attributes) { attributes_[attributes.id] = attributes; }

void GraphFiles::define(const SourceText& text) {
  if (!with_sources_) return;
  sources_.set(text.file, text.text.empty() ? std::nullopt : std::optional(text.text));
  if (sources_seen_.contains(text.file)) sources_to_write_.push_back(text.file);  // more of it is known now
}

void GraphFiles::begin_step(StepId step) {
  Step& begun = graphs_[step.graph].step.emplace(std::exchange(last_, {}));
  begun.id = step;
  begun.hash = 0;
  begun.ops.clear();
  begun.tensors.clear();
  begun.too_long = false;
}

void GraphFiles::add(const Record& record) {
  const auto at = graphs_.find(record.step.graph);
  if (at == graphs_.end() || !at->second.step || !(at->second.step->id == record.step)) return;
  Step& step = *at->second.step;
  if (step.too_long) return;
  if (record.completes) return complete(step, record);
  StepOp op{record.sequence, record.op->id, record.site, record.attributes};
  step.add_tensors(op, record);
  hash_op(step, op);
  // After a flush that could not wait for it, a record may come after later ones.
  step.ops.insert(std::ranges::upper_bound(step.ops, op.sequence, {}, &StepOp::sequence), op);
  if (step.ops.size() > kMostOps) leave_out(step);
}

// A step without an end must not fill the memory.
void GraphFiles::leave_out(Step& step) {
  step.too_long = true;
  std::vector<StepOp>().swap(step.ops);
  std::vector<StepTensor>().swap(step.tensors);
  notes_.push_back(fmt::format("graphs: step {} of graph {} has more than {} ops: it has no graph files",
                               step.id.number, step.id.graph, kMostOps));
}

// The time of completion is not deterministic, so it does not change the step's hash.
void GraphFiles::complete(Step& step, const Record& record) {
  if (const std::optional<std::uint32_t> op = step.find(record.sequence)) step.add_tensors(step.ops[*op], record);
}

std::optional<std::uint32_t> GraphFiles::Step::find(std::uint64_t sequence) const {
  const auto found = std::ranges::lower_bound(ops, sequence, {}, &StepOp::sequence);
  if (found == ops.end() || found->sequence != sequence) return std::nullopt;
  return static_cast<std::uint32_t>(found - ops.begin());
}

// The tensors of an op lie beside each other: those of an op that is completed move to the end.
void GraphFiles::Step::add_tensors(StepOp& op, const Record& record) {
  if (op.count == 0) op.first = tensors.size();
  if (op.first + op.count != tensors.size()) {
    const std::size_t end = tensors.size();
    for (std::size_t i = 0; i < op.count; ++i) tensors.push_back(StepTensor(tensors[op.first + i]));
    op.first = end;
  }
  for (const TensorRecord& tensor : record.tensors) tensors.push_back({tensor, tensor.parameter});
  op.count += record.tensors.size();
}

const OpName& GraphFiles::name_of(std::uint32_t id) const {
  static const OpName none;
  return id < names_.size() ? names_[id] : none;
}

// The op of the step that made an input. In a dump that is read, DataFlow finds it; here the step is still being
// recorded, and there is no catalog. Both follow `source`.
std::optional<std::uint32_t> GraphFiles::maker_of(const Step& step, const StepTensor& tensor) {
  return tensor.is_input ? step.find(tensor.source) : std::nullopt;
}

// Hashes names and data flow, but not shapes, values or attributes, which change from step to step in most programs.
void GraphFiles::hash_op(Step& step, const StepOp& op) {
  mix(step.hash, op.name);
  for (const StepTensor& tensor : step.tensors_of(op)) {
    mix(step.hash, tensor.slot * 2 + (tensor.is_input ? 1 : 0));
    if (!tensor.is_input) continue;
    if (const std::optional<std::uint32_t> maker = maker_of(step, tensor)) {
      mix(step.hash, (std::uint64_t{*maker} << 20) + tensor.source_slot + 1);
    } else {
      mix(step.hash, tensor.name);
    }
  }
}

Graph GraphFiles::graph_of(const Step& step) const {
  GraphBuilder builder(step.id.graph);
  for (const StepOp& from : step.ops) {
    GraphOp op;
    op.sequence = from.sequence;
    op.op_type = name_of(from.name).op_type;
    op.op_name = name_of(from.name).op_name;
    if (const auto found = attributes_.find(from.attributes); found != attributes_.end()) {
      op.attributes = &found->second.values;
    }
    if (from.site < sites_.size()) op.trace = &sites_[from.site].trace;
    for (const StepTensor& tensor : step.tensors_of(from)) {
      const std::string_view name = tensor.name != 0 ? name_of(tensor.name).op_name : std::string_view();
      op.tensors.push_back({tensor, maker_of(step, tensor), name});
    }
    builder.add(op);
  }
  return builder.finish();
}

Result<Fd> GraphFiles::directory_of(const std::filesystem::path& file) const {
  const std::filesystem::path& rank = layout_.rank_directory();
  return open_below(rank_, rank, file.parent_path().lexically_relative(rank), Missing::make);
}

Status GraphFiles::write_file(const std::filesystem::path& path, const std::string& text) {
  const Result<Fd> directory = directory_of(path);
  return directory ? write_whole_file(aside_, directory->get(), path, text) : directory.error();
}

Status GraphFiles::write(const Step& step, bool first) {
  std::string order(kOrderHeader);
  for (const StepOp& op : step.ops) order.append(name_of(op.name).op_name).append("\n");
  const Layout::GraphPaths paths = layout_.graph_files(step.id, first);
  if (Status status = write_file(paths.order, order); !status) return status;
  Graph graph = with_tuples(graph_of(step));
  if (Status status = write_file(paths.pb, model_proto(graph, sources_)); !status) return status;
  for (GraphNode& node : graph.nodes) shorten(node.trace, lines_);
  return write_file(paths.ir, ir_text(graph, grammar_of(layout_.release()), sources_));
}

Status GraphFiles::note_step(GraphState& state, std::optional<std::uint64_t> shown_by) {
  const StepId step = state.step->id;
  if (!state.table) {
    const std::filesystem::path path = layout_.graph_steps_file(step.graph);
    const Result<Fd> directory = directory_of(path);
    if (!directory) return directory.error();
    Result<AppendFile> table = AppendFile::open(directory->get(), path, kTableHeader);
    if (!table) return table.error();
    state.table = std::move(*table);
  }
  state.table->rows().append(fmt::format("{},{}\n", step.number, shown_by ? std::to_string(*shown_by) : "none"));
  return {};
}

Status GraphFiles::end_step(StepId id) {
  const auto at = graphs_.find(id.graph);
  if (at == graphs_.end() || !at->second.step || !(at->second.step->id == id)) return {};
  GraphState& state = at->second;
  const bool first = !std::exchange(state.seen, true);
  const bool full = state.known.size() >= kMostGraphs;
  auto known = state.known.find(state.step->hash);
  const bool fresh = known == state.known.end() && !full && !state.step->too_long;
  if (fresh) known = state.known.emplace(state.step->hash, id.number).first;
  const bool shown = known != state.known.end() && !state.step->too_long;
  Status status = note_step(state, shown ? std::optional(known->second) : std::nullopt);
  if (status && fresh) status = write(*state.step, first);
  if (fresh && state.known.size() == kMostGraphs) {
    notes_.push_back(
        fmt::format("graphs: {} steps of graph {} differed in their ops or data flow; a step after step {} that "
                    "differs from all of them has no graph files",
                    kMostGraphs, id.graph, id.number));
  }
  constexpr std::size_t kUsualOps = 1 << 14;
  if (state.step->ops.size() <= kUsualOps) last_ = std::move(*state.step);
  state.step.reset();
  forget_old_attributes();
  return status;
}

// Only between steps: the ops of one are looked up at its end.
void GraphFiles::forget_old_attributes() {
  const bool in_step = std::ranges::any_of(graphs_, [](const auto& item) { return item.second.step.has_value(); });
  if (in_step || attributes_.size() < 2 * kMostAttributesKnown) return;
  const std::uint32_t newest = attributes_.rbegin()->first;
  attributes_.erase(attributes_.begin(), attributes_.lower_bound(newest - kMostAttributesKnown));
}

// `sources/` and the file's own path below it.
Status GraphFiles::write_source(const std::string& file) {
  const std::string* text = sources_.text(file);
  if (text == nullptr) return {};
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(file, error).lexically_normal();
  if (error) return {};
  const std::filesystem::path path = layout_.sources_directory() / absolute.relative_path();
  const auto too_long = [](const std::filesystem::path& part) { return part.native().size() > NAME_MAX; };
  if (std::ranges::any_of(path, too_long) || path.native().size() >= PATH_MAX) return {};
  return write_file(path, *text);
}

Status GraphFiles::flush() {
  for (const std::string& file : std::exchange(sources_to_write_, {})) {
    if (Status status = write_source(file); !status) return status;
  }
  for (auto& [graph, state] : graphs_) {
    if (!state.table) continue;
    if (Status status = state.table->flush(); !status) return status;
  }
  return {};
}

Status GraphFiles::finish() {
  Status status;
  for (auto& [graph, state] : graphs_) {
    if (state.step && status) status = end_step(state.step->id);
  }
  if (status) status = flush();
  for (auto& [graph, state] : graphs_) {
    Status closed = state.table ? state.table->close() : Status();
    if (status) status = std::move(closed);
  }
  graphs_.clear();
  return status;
}

}  // namespace sonde
