#include "read/catalog/host_graphs.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>
#include <unordered_map>

#include "dump/graph/execution_order.h"
#include "dump/graph/host_graph.h"
#include "dump/graph/source_trace.h"
#include "dump/layout/side_names.h"
#include "dump/layout/trees.h"
#include "ground/files/mapped_file.h"
#include "ground/model/data_name.h"
#include "read/catalog/host_names.h"
#include "read/catalog/tensor_evidence.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLongestFile = 256 << 20;

// Empty, with `problem` set, if it cannot be read; both empty if there is no such file.
std::optional<std::string> read_file(const fs::path& path, std::string& problem) {
  Result<std::string> text = read_whole_file(path, kLongestFile);
  if (text) return std::move(*text);
  if (text.error().code != ErrorCode::not_found) problem = text.error().message;
  return std::nullopt;
}

// The existing files of a graph.
struct GraphPaths {
  fs::path pb, ir, order;
  bool are_ours = false;  // Sonde wrote them
};

// Directories that may hold `graphs/`. In trees without `rank_N` MindSpore's own are in the metadata of the whole dump.
std::vector<fs::path> places_of(const CatalogRank& rank) {
  std::vector<fs::path> places = {rank.directory, rank.metadata};
  fs::path above = rank.directory;
  for (int level = 0; level < 4 && above.has_relative_path(); ++level, above = above.parent_path()) {
    places.push_back(host_directory_in(above) / rank_name(rank.rank));
  }
  return places;
}

// Where Sonde wrote them (a dump whose journal is gone), a table says which step's files show which step; all others
// have one graph for all steps.
class GraphPlaces {
 public:
  GraphPlaces(const CatalogRank& rank, std::uint32_t graph) : graph_(graph) {
    std::error_code ignored;
    for (const fs::path& place : places_of(rank)) {
      if (root_.empty() || fs::is_directory(place / kGraphsDirectory, ignored)) root_ = place;
      if (fs::is_directory(root_ / kGraphsDirectory, ignored)) break;
    }
    const Result<std::string> rows = read_whole_file(root_ / kGraphsDirectory / graph_steps_name(graph), kLongestFile);
    are_ours_ = static_cast<bool>(rows);
    std::istringstream table(rows ? *rows : std::string());
    std::string row;
    while (std::getline(table, row)) {
      std::uint64_t step = 0, shown_by = 0;
      const char* const end = row.data() + row.size();
      const auto [comma, error] = std::from_chars(row.data(), end, step);
      if (error != std::errc() || comma == end || *comma != ',') continue;
      if (std::from_chars(comma + 1, end, shown_by).ec == std::errc()) {
        shown_by_[step] = shown_by;
      } else {
        shown_by_[step] = kNone;
      }
    }
  }

  GraphPaths of(std::uint64_t step) const {
    const std::string pb = graph_name(graph_, ".pb"), ir = graph_name(graph_, ".ir"), order = order_name(graph_);
    const auto shown_by = shown_by_.find(step);
    const std::uint64_t number = shown_by != shown_by_.end() ? shown_by->second : step;
    const fs::path own = root_ / kGraphsDirectory / graphs_of_step_name(std::to_string(number));
    std::error_code ignored;
    if (number == kNone || fs::is_directory(own, ignored)) return {own / pb, own / ir, own / order, are_ours_};
    const fs::path graphs = root_ / kGraphsDirectory;
    return {graphs / pb, graphs / ir, root_ / kOrderDirectory / order, are_ours_};
  }

 private:
  std::uint32_t graph_;
  fs::path root_;
  bool are_ours_ = false;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};  // the writer has left it out
  std::map<std::uint64_t, std::uint64_t> shown_by_;
};

// The `.pb`; if it is missing or incomplete, the `.ir`, which has no data flow.
std::shared_ptr<const HostGraph> read_graph(const GraphPaths& paths, CatalogRank& rank, Catalog& catalog) {
  std::string problem;
  if (const std::optional<std::string> bytes = read_file(paths.pb, problem)) {
    Result<HostGraph> graph = read_model_proto(*bytes);
    if (graph) {
      // Our graph files name an op also if a later one reads its internal result, and do not say that this is not an
      // output.
      for (HostOp& op : graph->ops) {
        if (paths.are_ours) op.inputs.clear();
      }
      rank.has_host_data_flow = rank.has_host_data_flow || !paths.are_ours;
      return std::make_shared<const HostGraph>(std::move(*graph));
    }
    problem = graph.error().message;
  }
  const bool had_pb = !problem.empty();
  if (had_pb) catalog.problems.push_back({paths.pb, problem + "; lines are taken from the .ir beside it"});
  problem.clear();
  const std::optional<std::string> text = read_file(paths.ir, problem);
  if (!problem.empty() && !had_pb) catalog.problems.push_back({paths.ir, problem});
  if (!text) return nullptr;
  HostGraph graph = read_ir_text(*text);
  if (graph.ops.empty()) return nullptr;
  return std::make_shared<const HostGraph>(std::move(graph));
}

// Only their names and values are known.
bool are_bare(const std::vector<CatalogStep*>& steps) {
  bool any = false;
  for (const CatalogStep* step : steps) {
    for (const CatalogOp& op : step->ops) {
      if (op.is_parameter) continue;
      any = true;
      if (!op.source_file.empty()) return false;
      if (std::ranges::any_of(op.tensors, [](const CatalogTensor& t) { return t.source != kNoSequence; })) return false;
    }
  }
  return any;
}

// Adds the facts of a graph to the ops of its steps.
class HostGraphAdder {
 public:
  HostGraphAdder(const HostGraph& graph, const HostNames& names, HostGraph& commons, TextPool& texts)
      : graph_(graph), names_(names), texts_(texts) {
    for (const auto& [name, op] : names.common()) commons.ops.push_back(op);
    std::size_t next = 0;  // views into a vector that no longer grows
    for (const auto& [name, op] : names.common()) common_.emplace(name, &commons.ops[next++]);
  }

  void add(CatalogStep& step) {
    runs_.clear();
    parameters_.clear();
    std::vector<const HostOp*> known(step.ops.size());
    for (std::size_t i = 0; i < step.ops.size(); ++i) {
      CatalogOp& op = step.ops[i];
      if (op.is_parameter && !op.tensors.empty()) parameters_.emplace(op.op_name, &op);
      if (op.is_parameter) continue;
      if (const std::optional<std::uint32_t> found = names_.find(op.op_name)) {
        known[i] = &graph_.ops[*found];
        runs_[*found].push_back(i);
      } else if (const auto common = common_.find(op.op_name); common != common_.end()) {
        known[i] = common->second;
      }
    }
    for (std::size_t i = 0; i < step.ops.size(); ++i) {
      if (known[i] == nullptr) continue;
      add_lines(*known[i], step.ops[i]);
      add_inputs(*known[i], step, i);
    }
  }

  // Inputs whose size contradicts the source that the graph names for them: it is left out.
  std::size_t contradictions() const { return contradictions_; }

 private:
  void add_lines(const HostOp& from, CatalogOp& op) {
    if (!from.attributes.empty() && op.attributes == nullptr) op.attributes = &from.attributes;
    if (from.trace.empty()) return;
    op.trace = &from.trace;
    const SourceLine& line = users_line(from.trace);
    op.source_file = texts_.keep(line.file);
    op.line = line.line;
    op.function = texts_.keep(line.function);
  }

  void add_inputs(const HostOp& from, CatalogStep& step, std::size_t index) {
    CatalogOp& op = step.ops[index];
    for (std::uint32_t slot = 0; slot < from.inputs.size(); ++slot) {
      const HostInput& input = from.inputs[slot];
      // A constant that is not a number and has no file is one of the op's attributes, or empty.
      const bool is_number = input.kind != HostInput::Kind::constant || input.value;
      if (input.kind == HostInput::Kind::unknown || (!is_number && !has_input(op, slot))) continue;
      add_input(input, step, index, input_of(op, slot));
    }
    std::ranges::stable_sort(op.tensors, [](const CatalogTensor& a, const CatalogTensor& b) {
      return a.is_input != b.is_input ? a.is_input : a.slot < b.slot;
    });
  }

  static bool has_input(const CatalogOp& op, std::uint32_t slot) {
    return std::ranges::any_of(op.tensors, [&](const CatalogTensor& t) { return t.is_input && t.slot == slot; });
  }

  static CatalogTensor& input_of(CatalogOp& op, std::uint32_t slot) {
    for (CatalogTensor& tensor : op.tensors) {
      if (tensor.is_input && tensor.slot == slot) return tensor;
    }
    CatalogTensor& tensor = op.tensors.emplace_back();
    tensor.is_input = true;
    tensor.slot = slot;
    tensor.wanted = false;
    return tensor;
  }

  void add_input(const HostInput& input, const CatalogStep& step, std::size_t index, CatalogTensor& tensor) {
    if (input.kind == HostInput::Kind::constant && input.value) {
      if (!tensor.constant) tensor.constant = input.value;
    } else if (input.kind != HostInput::Kind::op) {
      const bool made_up = kind_of_name(input.parameter) == NameKind::carried;  // by us: an op that was not recorded
      const auto recorded = parameters_.find(input.parameter);
      if (recorded != parameters_.end() && contradicts(recorded->second->tensors[0], tensor)) return;
      if (tensor.parameter.empty() && !made_up) tensor.parameter = texts_.keep(input.parameter);
    } else if (const CatalogOp* source = source_of(input.op, step, index)) {
      const CatalogTensor* output = output_of(*source, input.slot);
      if (output != nullptr && contradicts(*output, tensor)) return;
      tensor.source = source->sequence;
      tensor.source_slot = input.slot;
      if (!tensor.wanted) take_type(*source, input.slot, tensor);
    } else if (tensor.parameter.empty() && is_named_alike(input.op)) {
      tensor.parameter = texts_.keep(graph_.ops[input.op].op_name + ":output." + std::to_string(input.slot));
    }
  }

  // The last run of an op in this step before its reader's, or else the first.
  const CatalogOp* source_of(std::uint32_t op, const CatalogStep& step, std::size_t reader) const {
    const auto runs = runs_.find(op);
    if (runs == runs_.end()) return nullptr;
    const auto after = std::ranges::upper_bound(runs->second, reader);
    return &step.ops[after == runs->second.begin() ? *after : *(after - 1)];
  }

  // Excludes recreated ops: the dump may use that name for another op.
  bool is_named_alike(std::uint32_t op) const { return !names_.is_uncertain(op); }

  static const CatalogTensor* output_of(const CatalogOp& source, std::uint32_t slot) {
    for (const CatalogTensor& output : source.tensors) {
      if (!output.is_input && output.slot == slot) return &output;
    }
    return nullptr;
  }

  static void take_type(const CatalogOp& source, std::uint32_t slot, CatalogTensor& tensor) {
    if (const CatalogTensor* output = output_of(source, slot)) {
      tensor.dtype = output->dtype;
      tensor.has_shape = output->has_shape;
      tensor.shape = output->shape;
    }
  }

  bool contradicts(const CatalogTensor& source, const CatalogTensor& input) {
    const bool contradicts = !sizes_agree(source, input);
    contradictions_ += contradicts ? 1 : 0;
    return contradicts;
  }

  const HostGraph& graph_;
  const HostNames& names_;
  TextPool& texts_;
  std::unordered_map<std::string_view, const HostOp*> common_;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> runs_;   // of ops of the graph, in this step
  std::unordered_map<std::string_view, const CatalogOp*> parameters_;  // recorded in this step
  std::size_t contradictions_ = 0;
};

void add_graph(const GraphPaths& paths, const std::vector<CatalogStep*>& steps, CatalogRank& rank, Catalog& catalog) {
  const std::shared_ptr<const HostGraph> graph = read_graph(paths, rank, catalog);
  if (!graph) return;
  std::vector<std::string> order;
  Result<ExecutionOrderNames> names = ExecutionOrderNames::read(paths.order);
  if (names) {
    order = names->names();
  } else if (names.error().code != ErrorCode::not_found) {
    catalog.problems.push_back({paths.order, names.error().message});
  }
  const HostNames matched(*graph, order, rank, steps, *catalog.texts);
  auto commons = std::make_shared<HostGraph>();
  HostGraphAdder adder(*graph, matched, *commons, *catalog.texts);
  for (CatalogStep* step : steps) adder.add(*step);
  if (adder.contradictions() > 0) {
    const std::string message =
        std::to_string(adder.contradictions()) +
        " inputs have another size than the outputs or parameters that it names as their source; "
        "these sources are left out: the graph is of another run, or its names are wrong";
    catalog.problems.push_back({paths.pb, message});
  }
  if (!matched.doubt().empty()) {
    catalog.problems.push_back(
        {paths.pb, matched.doubt() + ": the graph is of another run, or its names are wrong", matched.is_lost()});
  }
  rank.host_graphs.push_back(graph);
  if (!commons->ops.empty()) rank.host_graphs.push_back(std::move(commons));
}

}  // namespace

void add_host_graphs(CatalogRank& rank, Catalog& catalog) {
  std::map<std::pair<std::uint32_t, std::size_t>, std::vector<CatalogStep*>> graphs;  // by graph and run
  for (CatalogStep& step : rank.steps) graphs[{step.id.graph, step.run}].push_back(&step);
  for (auto& [key, steps] : graphs) {
    if (!are_bare(steps)) continue;
    const GraphPlaces places(rank, key.first);
    std::map<fs::path, std::pair<GraphPaths, std::vector<CatalogStep*>>> by_file;
    for (CatalogStep* step : steps) {
      const GraphPaths paths = places.of(step->id.number);
      auto& [same_paths, of_file] = by_file[paths.pb];
      same_paths = paths;
      of_file.push_back(step);
    }
    for (const auto& [file, found] : by_file) add_graph(found.first, found.second, rank, catalog);
  }
}

}  // namespace sonde
