#include "compiled.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "capture.h"
#include "hash.h"
#include "leaked.h"
#include "op_tensors.h"
#include "ops.h"
#include "place.h"
#include "synchronized.h"
#include "thread_state.h"
#include "watched.h"

namespace sonde_torch {

struct CompiledRun {
  std::shared_ptr<const CompiledGraph> graph;
  sonde_graph kind = SONDE_GRAPH_TRAINING;
  ResolveGraph resolve;
  std::size_t next = 0;                 // the first node that is not recorded yet
  std::vector<std::uint64_t> numbers;   // by node, from op_keep()
  std::vector<std::uint64_t> storages;  // by output of the graph's nodes; 0: unknown
  std::shared_ptr<CompiledRun> outer;
};

namespace {

constexpr std::uint64_t kNotKept = ~std::uint64_t{0};

// By number, which is never used again. A session's graphs are freed by the next one.
using Graphs = Synchronized<std::vector<std::shared_ptr<const CompiledGraph>>>;

Graphs& graphs() { return table_of_process<Graphs>(); }

std::shared_ptr<const CompiledGraph> graph_of_number(std::int64_t number) {
  const auto known = graphs().lock();
  if (number < 1 || static_cast<std::size_t>(number) > known->size()) return nullptr;
  return (*known)[static_cast<std::size_t>(number) - 1];
}

void use_graph(CompiledRun& run, std::int64_t number) {
  run.graph = graph_of_number(number);
  if (run.graph == nullptr) return;
  run.numbers.assign(run.graph->nodes.size(), kNotKept);
  const auto& nodes = run.graph->nodes;
  run.storages.assign(nodes.empty() ? 0 : nodes.back().first_output + nodes.back().outputs.size(), 0);
}

void report_node_attributes(sonde_op* op, const CompiledNode& node) {
  std::vector<sonde_attribute> list;
  for (const NodeAttribute& a : node.attributes) {
    const std::size_t count = std::max(a.integers.size(), a.reals.size());
    list.push_back(
        {a.name.c_str(), a.kind, static_cast<std::uint32_t>(count), a.integers.data(), a.reals.data(), a.text.c_str()});
  }
  api().op_attributes(op, list.data(), static_cast<std::uint32_t>(list.size()));
}

void report_node_inputs(ThreadState& state, const CompiledRun& run, const CompiledNode& node, sonde_op* op,
                        at::TensorList given) {
  std::size_t next = 0;
  for (const NodeInput& input : node.inputs) {
    if (input.maker != NodeInput::kGiven) {
      const std::uint64_t number = run.numbers[static_cast<std::size_t>(input.maker)];
      if (number != kNotKept) api().op_input_of(op, input.slot, number, input.output);
    } else if (next < given.size()) {
      state.scratch.describe(given[next++], false);
      api().op_input(op, input.slot, state.scratch.get());
    }
  }
}

// Compiled code reuses memory without a word, so that every result is new, except a view of the node's first input.
bool is_view_of_input(const CompiledRun& run, const CompiledNode& node, std::uint64_t storage, at::TensorList given) {
  if (!node.is_view || node.inputs.empty()) return false;
  const NodeInput& first = node.inputs.front();
  if (first.maker != NodeInput::kGiven) {
    const CompiledNode& maker = run.graph->nodes[static_cast<std::size_t>(first.maker)];
    return first.output < maker.outputs.size() && run.storages[maker.first_output + first.output] == storage;
  }
  return !given.empty() && given[0].has_storage() &&
         storage_identity(given[0].storage().unsafeGetStorageImpl()).id == storage;
}

void report_node_outputs(ThreadState& state, CompiledRun& run, std::size_t index, sonde_op* op,
                         at::TensorList results) {
  const CompiledNode& node = run.graph->nodes[index];
  std::size_t next = 0;
  for (std::uint32_t slot = 0; slot < node.outputs.size(); ++slot) {
    const NodeOutput& output = node.outputs[slot];
    if (output.given && next < results.size()) {
      state.scratch.describe(results[next++], false);
      if (node.is_unwritten && state.scratch.tensor.skip == nullptr) state.scratch.set_unwritten();
      api().op_output(op, slot, state.scratch.get());
      continue;
    }
    sonde_tensor tensor{};
    tensor.size = sizeof tensor;
    tensor.dtype = output.dtype;
    tensor.ndim = static_cast<std::uint32_t>(output.shape.size());
    tensor.shape = output.shape.data();
    tensor.skip = !node.tapped   ? "not selected: it stays inside a fused kernel"
                  : output.given ? "the compiler has removed it"
                                 : "computed, but used by no operator";
    api().op_output(op, slot, &tensor);
  }
}

void report_writes(ThreadState& state, CompiledRun& run, std::size_t index, sonde_op* op, at::TensorList results,
                   at::TensorList given) {
  const CompiledNode& node = run.graph->nodes[index];
  std::size_t next = 0;
  for (std::size_t slot = 0; slot < node.outputs.size() && next < results.size(); ++slot) {
    if (!node.outputs[slot].given) continue;
    state.scratch.describe(results[next++], false);
    const std::uint64_t storage = state.scratch.tensor.storage;
    run.storages[node.first_output + slot] = storage;
    if (storage == 0 || is_view_of_input(run, node, storage, given)) continue;
    api().op_mutated(op, storage);
  }
}

void record_node(ThreadState& state, CompiledRun& run, std::size_t index, at::TensorList results,
                 at::TensorList given) {
  const CompiledNode& node = run.graph->nodes[index];
  sonde_op* op = nullptr;
  const unsigned wanted = api().op_begin(node.site, run.kind, node.attributes_hash, &op);
  if (wanted == 0) return;
  if ((wanted & SONDE_WANT_MODULES) != 0) {
    api().modules_exist(parameters_exist(state) ? 1 : 0);
    set_capture();
  }
  if ((wanted & SONDE_WANT_ATTRIBUTES) != 0) report_node_attributes(op, node);
  report_writes(state, run, index, op, results, given);
  if ((wanted & SONDE_WANT_CHECK) != 0) {
    for (const at::Tensor& result : results) {
      state.scratch.describe(result, false);
      api().op_check_output(op, state.scratch.get());
    }
  }
  report_node_inputs(state, run, node, op, given);
  report_node_outputs(state, run, index, op, results);
  if ((wanted & SONDE_WANT_WATCHED) != 0) report_watched(op);
  run.numbers[index] = api().op_keep(op);
  api().op_end(op, 0);
}

// Nodes up to `end` whose taps have not come: their place in the graph, without values.
void record_structure(ThreadState& state, CompiledRun& run, std::size_t end) {
  for (; run.next < end; ++run.next) record_node(state, run, run.next, {}, {});
}

// The results of the graph that are not in the memory in which their taps gave them. Views come after what they may be
// views of: memory has one maker.
void place_results(ThreadState& state, const CompiledRun& run, const ResultAt& result) {
  std::vector<std::uint64_t> placed;
  for (const bool is_view : {false, true}) {
    for (const GraphResult& one : run.graph->results) {
      const CompiledNode& node = run.graph->nodes[one.node];
      if (node.is_view != is_view || run.numbers[one.node] == kNotKept) continue;
      const at::Tensor* tensor = result(one.position);
      if (tensor == nullptr || !tensor->defined()) continue;
      state.scratch.describe(*tensor, false);
      const std::uint64_t storage = state.scratch.tensor.storage;
      const bool is_known = storage == run.storages[node.first_output + one.output];
      if (storage == 0 || std::ranges::find(placed, storage) != placed.end()) continue;
      placed.push_back(storage);
      if (!is_known) api().op_result_at(run.numbers[one.node], one.output, state.scratch.get());
    }
  }
}

// --- the operators in compiled code ----------------------------------------------------------------------------------

// An error of ours ends in the engine or here: compiled code has no place for it.
template <typename F>
void in_run(F body) {
  ThreadState& state = thread_state();
  CompiledRun* run = state.compiled.get();
  if (run == nullptr || is_inert() || state.busy) return;
  try {
    body(state, *run);
  } catch (...) {  // only this node is lost
    state.busy = false;
  }
}

// The first node of a graph with taps. `text` is its table: it is part of the compiled code, which may come from a cache.
void graph_begins(const at::Tensor&, c10::string_view text) {
  in_run([&](ThreadState& state, CompiledRun& run) {
    if (run.graph != nullptr || !run.resolve) return;
    state.busy = true;
    const std::int64_t number = run.resolve({text.data(), text.size()});
    state.busy = false;
    use_graph(run, number);
  });
}

// `order` has no content: each tap writes it, so that they run in the order of the graph.
void tap(const at::Tensor&, std::int64_t node, at::TensorList results, at::TensorList given) {
  tap_node(node, results, given);
}

// sonde.dump_scope() in a model that is compiled with a backend that runs its graph operator by operator.
void dump_scope(std::int64_t change) {
  ThreadState& state = thread_state();
  if (state.tracing > 0) return;
  state.dump_scopes = std::max(0, state.dump_scopes + static_cast<int>(change));
}

void nothing_begins(const at::Tensor&, c10::string_view) {}
void no_tap(const at::Tensor&, std::int64_t, at::TensorList, at::TensorList) {}

}  // namespace

std::int64_t keep_graph(std::unique_ptr<CompiledGraph> graph) {
  const auto known = graphs().lock();
  known->push_back(std::move(graph));
  return static_cast<std::int64_t>(known->size());
}

void forget_graphs() {
  const auto known = graphs().lock();
  for (auto& graph : *known) graph.reset();
}

bool knows_graph(std::int64_t number) { return graph_of_number(number) != nullptr; }

void add_attribute(CompiledNode& node, NodeAttribute attribute) {
  std::uint64_t hash = mix(node.attributes_hash, hash_of(attribute.name));
  hash = mix(mix(hash, attribute.kind), hash_of(attribute.text));
  for (const std::int64_t value : attribute.integers) hash = mix(hash, static_cast<std::uint64_t>(value));
  for (const double value : attribute.reals) hash = mix(hash, std::hash<double>{}(value));
  node.attributes_hash = hash;
  node.attributes.push_back(std::move(attribute));
}

namespace {

// Its memory may be a copy. What an operator writes is a result of its own in such a graph.
bool is_view_of_unwritten(const CompiledGraph& graph, const CompiledNode& node) {
  if (!node.is_view || node.inputs.empty() || node.inputs.front().maker == NodeInput::kGiven) return false;
  return graph.nodes[static_cast<std::size_t>(node.inputs.front().maker)].is_unwritten;
}

}  // namespace

bool add_node(CompiledGraph& graph, const char* type, CompiledNode node) {
  const auto own = static_cast<std::int64_t>(graph.nodes.size());
  for (const NodeInput& input : node.inputs) {
    if (input.maker >= own || input.maker < NodeInput::kGiven) return false;
  }
  node.is_unwritten = gives_unwritten_memory(type) || is_view_of_unwritten(graph, node);
  if (!node.attributes.empty()) {
    node.attributes_hash = mix(node.attributes_hash, std::hash<std::string_view>{}(type)) | 1;
  }
  if (!graph.nodes.empty()) {
    node.first_output = graph.nodes.back().first_output + graph.nodes.back().outputs.size();
  }
  graph.nodes.push_back(std::move(node));
  return true;
}

bool add_result(CompiledGraph& graph, GraphResult result) {
  if (result.node >= graph.nodes.size() || result.output >= graph.nodes[result.node].outputs.size()) return false;
  graph.results.push_back(result);
  return true;
}

void begin_run(std::int64_t graph, sonde_graph kind, ResolveGraph resolve) {
  ThreadState& state = thread_state();
  auto run = std::make_shared<CompiledRun>();
  run->kind = kind;
  run->resolve = std::move(resolve);
  use_graph(*run, graph);
  run->outer = std::move(state.compiled);
  state.compiled = std::move(run);
}

void tap_node(std::int64_t node, at::TensorList results, at::TensorList given) {
  in_run([&](ThreadState& state, CompiledRun& run) {
    if (run.graph == nullptr || node < 0 || static_cast<std::size_t>(node) >= run.graph->nodes.size()) return;
    const auto index = static_cast<std::size_t>(node);
    record_structure(state, run, index);
    run.next = std::max(run.next, index + 1);
    record_node(state, run, index, results, given);
  });
}

void end_run(const ResultAt& result) {
  ThreadState& state = thread_state();
  if (state.compiled == nullptr) return;
  in_run([&](ThreadState& inner, CompiledRun& run) {
    if (run.graph == nullptr) return;
    record_structure(inner, run, run.graph->nodes.size());
    if (result != nullptr) place_results(inner, run, result);
  });
  const std::shared_ptr<CompiledRun> ended = std::move(state.compiled);
  state.compiled = std::move(ended->outer);
  std::erase(ended->numbers, kNotKept);
  if (!ended->numbers.empty() && !is_inert()) api().ops_forgotten(ended->numbers.data(), ended->numbers.size());
  if (!is_inert() && purge_is_due()) forget_dead_storages();
}

namespace {

// The operators of taps. `order` is written, so that no pass removes or reorders them. flexible_layout: a tensor is handed
// over as it lies. A process may have two adapters, as one that a program links and one that `sonde run` preloads: the
// first that is loaded has them.
struct Operators {
  std::deque<torch::Library> libraries;

  torch::Library& library(torch::Library::Kind kind, std::optional<c10::DispatchKey> key) {
    return libraries.emplace_back(kind, "sonde", key, __FILE__, __LINE__);
  }

  Operators() {
    if (c10::Dispatcher::singleton().findSchema({"sonde::tap", ""})) return;
    torch::Library& all = library(torch::Library::DEF, std::nullopt);
    all.def("graph(Tensor(a!) order, str table) -> ()");
    all.def("tap(Tensor(a!) order, int node, Tensor[] results, Tensor[] given) -> ()", {at::Tag::flexible_layout});
    all.def("dump_scope(int change) -> ()");
    torch::Library& everywhere = library(torch::Library::IMPL, c10::DispatchKey::CompositeExplicitAutograd);
    everywhere.impl("graph", graph_begins);
    everywhere.impl("tap", tap);
    everywhere.impl("dump_scope", dump_scope);
    torch::Library& meta = library(torch::Library::IMPL, c10::DispatchKey::Meta);
    meta.impl("graph", nothing_begins);
    meta.impl("tap", no_tap);
    torch::Library& autograd = library(torch::Library::IMPL, c10::DispatchKey::Autograd);
    autograd.impl("graph", torch::CppFunction::makeFallthrough());
    autograd.impl("tap", torch::CppFunction::makeFallthrough());
  }
};
[[maybe_unused]] const Operators& g_operators =
    *new Operators;  // never taken back: threads may outlive static destruction

}  // namespace
}  // namespace sonde_torch
