// GraphBuilder: makes a Graph of the ops of a step, as they ran, and of their inputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dump/graph/graph.h"
#include "sonde/tensor_meta.h"

namespace sonde {

// One slot of an op, as the dump recorded it.
struct GraphTensor : TensorMeta {
  // For an input: the number, in the order of add(), of the op whose output `source_slot` it is. In a dump that is
  // read, DataFlow finds it; in a step that is still being recorded, and is in no catalog, GraphFiles does.
  std::optional<std::uint32_t> maker;
  std::string_view name;  // of the parameter, gradient, state or input data it is; empty: none
};

// Views stay valid until finish().
struct GraphOp {
  std::uint64_t sequence = 0;
  std::string_view op_type, op_name;
  std::vector<GraphTensor> tensors;
  const std::vector<Attribute>* attributes = nullptr;
  const std::vector<SourceLine>* trace = nullptr;
};

class GraphBuilder {
 public:
  explicit GraphBuilder(std::uint32_t id) { graph_.id = id; }
  void add(const GraphOp& op);
  Graph finish() { return std::move(graph_); }

 private:
  Operand operand_of(const GraphTensor& tensor);
  std::uint32_t parameter_of(const GraphTensor& tensor);

  Graph graph_;
  std::map<std::string, std::uint32_t, std::less<>> parameters_;
  std::unordered_map<std::uint64_t, std::uint32_t> carried_;  // identity -> parameter
  std::uint32_t carried_count_ = 0;
};

// MindSpore's graphs name one output of several through a separate node, TupleGetItem, and join several results of the
// graph in a node MakeTuple. Its readers expect these nodes. Adds them; ops keep their order.
Graph with_tuples(Graph graph);

}  // namespace sonde
