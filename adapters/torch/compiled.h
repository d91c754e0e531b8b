// Graphs that torch.compile has compiled. Their nodes run inside fused kernels; operators of ours between these hand the
// results over ("taps", python/sonde/compiled/taps.py), with the names and the data flow that the graph knows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/sonde.h"

namespace sonde_torch {

struct ThreadState;

struct NodeAttribute {
  std::string name;
  std::uint32_t kind = SONDE_ATTRIBUTE_NONE;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  std::string text;
};

// A tensor argument of a node.
struct NodeInput {
  static constexpr std::int64_t kGiven = -1;  // the tap has it: an input of the graph
  std::uint32_t slot = 0;
  std::int64_t maker = kGiven;  // the node whose result it is
  std::uint32_t output = 0;
};

struct NodeOutput {
  bool given = false;  // the tap has it
  sonde_dtype dtype = SONDE_DTYPE_UNDEFINED;
  std::vector<std::int64_t> shape;  // of one that is not given, as it was compiled
};

struct CompiledNode {
  std::uint32_t site = 0;
  std::uint64_t attributes_hash = 0;
  bool is_view = false;  // its result may be memory of its first input
  bool tapped = false;
  bool is_unwritten = false;     // its result is memory that nobody has written yet
  std::size_t first_output = 0;  // its outputs have numbers from here on, in the graph
  std::vector<NodeAttribute> attributes;
  std::vector<NodeInput> inputs;
  std::vector<NodeOutput> outputs;
};

// A result of the whole graph that a node makes.
struct GraphResult {
  std::size_t position = 0;  // among the results
  std::size_t node = 0;
  std::uint32_t output = 0;
};

struct CompiledGraph {
  std::vector<CompiledNode> nodes;  // in the order in which they are recorded
  std::vector<GraphResult> results;
};

// Nodes and their attributes are added in order. False: the node reads the result of one that is not before it.
bool add_node(CompiledGraph& graph, const char* type, CompiledNode node);
void add_attribute(CompiledNode& node, NodeAttribute attribute);
// After all nodes. False: the graph does not have this output.
bool add_result(CompiledGraph& graph, GraphResult result);

// One run of a compiled graph with taps, on one thread.
struct CompiledRun;

// The number of `graph` for begin_run(), from 1. Kept until the next session.
std::int64_t keep_graph(std::unique_ptr<CompiledGraph> graph);
void forget_graphs();

// A run begins on this thread. 0: the graph is not known; `resolve(text)` gives its number for the text that it carries.
// Ends with end_run(). Until then, operators that the compiled code calls are not recorded by themselves.
using ResolveGraph = std::function<std::int64_t(std::string_view text)>;
void begin_run(std::int64_t graph, sonde_graph kind, ResolveGraph resolve);
// `result(position)`: a result of the graph; null: none, or not a tensor. Inductor may put it into the memory of another node's.
using ResultAt = std::function<const at::Tensor*(std::size_t position)>;
void end_run(const ResultAt& result = nullptr);

// A tap of the run on this thread: the results of node `node`, and those of its inputs that no node makes.
void tap_node(std::int64_t node, at::TensorList results, at::TensorList given);
// True if a graph with this number exists in the session that runs.
bool knows_graph(std::int64_t number);

}  // namespace sonde_torch
