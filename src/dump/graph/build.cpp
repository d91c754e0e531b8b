#include "dump/graph/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ground/model/data_name.h"

namespace sonde {
namespace {

constexpr std::uint32_t kMostSlots = 1 << 20;  // of one op; more is damage

template <typename T>
T& at_slot(std::vector<T>& slots, std::uint32_t slot) {
  if (slot >= slots.size()) slots.resize(slot + 1);
  return slots[slot];
}

ValueType nothing() {
  ValueType type;
  type.is_tensor = false;
  return type;
}

ValueType type_of(const TensorMeta& tensor) { return {tensor.dtype, tensor.shape, true, tensor.has_shape}; }

}  // namespace

void GraphBuilder::add(const GraphOp& op) {
  GraphNode node;
  node.sequence = op.sequence;
  node.op_type = op.op_type;
  node.op_name = op.op_name;
  if (op.attributes != nullptr) node.attributes = *op.attributes;
  if (op.trace != nullptr) node.trace = *op.trace;
  for (const GraphTensor& tensor : op.tensors) {
    if (tensor.slot >= kMostSlots) continue;
    if (tensor.is_input) {
      at_slot(node.inputs, tensor.slot) = operand_of(tensor);
    } else {
      while (node.outputs.size() <= tensor.slot) node.outputs.push_back(nothing());
      node.outputs[tensor.slot] = type_of(tensor);
    }
  }
  for (Operand& input : node.inputs) {
    if (input.kind == Operand::Kind::none) input.type = nothing();
  }
  graph_.nodes.push_back(std::move(node));
}

Operand GraphBuilder::operand_of(const GraphTensor& tensor) {
  Operand operand;
  operand.type = type_of(tensor);
  if (tensor.maker && *tensor.maker < graph_.nodes.size()) {  // an op reads only results of earlier ops
    operand.kind = Operand::Kind::node;
    operand.index = *tensor.maker;
    operand.slot = tensor.source_slot;
  } else if (tensor.constant) {
    operand.kind = Operand::Kind::constant;
    operand.value = *tensor.constant;
  } else {
    operand.kind = Operand::Kind::parameter;
    operand.index = parameter_of(tensor);
  }
  return operand;
}

std::uint32_t GraphBuilder::parameter_of(const GraphTensor& tensor) {
  const auto next = static_cast<std::uint32_t>(graph_.parameters.size());
  GraphParameter parameter;
  parameter.type = type_of(tensor);
  if (!tensor.name.empty()) {
    const auto known = parameters_.find(tensor.name);
    if (known != parameters_.end()) return known->second;
    parameters_.emplace(tensor.name, next);
    parameter.kind =
        kind_of_name(tensor.name) == NameKind::data ? GraphParameter::Kind::data : GraphParameter::Kind::weight;
    parameter.name = tensor.name;
  } else {
    if (tensor.content != 0) {
      const auto [known, fresh] = carried_.try_emplace(tensor.content, next);
      if (!fresh) return known->second;
    }
    parameter.kind = GraphParameter::Kind::carried;
    parameter.name = carried_name(carried_count_++);
  }
  graph_.parameters.push_back(std::move(parameter));
  return next;
}

namespace {

// Rebuilds the nodes, with the bookkeeping nodes of MindSpore between them.
class Tupler {
 public:
  explicit Tupler(Graph graph) : from_(std::move(graph)) {}

  Graph run() {
    to_.id = from_.id;
    to_.parameters = std::move(from_.parameters);
    find_sinks();
    for (GraphNode& node : from_.nodes) {
      for (Operand& input : node.inputs) {
        if (input.kind == Operand::Kind::node) input = moved(input);
      }
      places_.push_back(static_cast<std::uint32_t>(to_.nodes.size()));
      to_.nodes.push_back(std::move(node));
    }
    join_sinks();
    return std::move(to_);
  }

 private:
  void find_sinks() {
    is_read_.resize(from_.nodes.size());
    for (const GraphNode& node : from_.nodes) {
      for (const Operand& input : node.inputs) {
        if (input.kind == Operand::Kind::node) is_read_[input.index] = true;
      }
    }
  }

  // The same operand in the new numbers: the op itself, or the TupleGetItem of that output.
  Operand moved(Operand operand) {
    const std::uint32_t place = places_[operand.index];
    if (to_.nodes[place].outputs.size() < 2 || operand.slot >= to_.nodes[place].outputs.size()) {
      operand.index = place;
      operand.slot = 0;
      return operand;
    }
    const auto [known, fresh] = items_.try_emplace({place, operand.slot}, static_cast<std::uint32_t>(to_.nodes.size()));
    if (fresh) to_.nodes.push_back(item_of(place, operand.slot));
    operand.index = known->second;
    operand.slot = 0;
    return operand;
  }

  GraphNode item_of(std::uint32_t place, std::uint32_t slot) {
    const GraphNode& many = to_.nodes[place];
    GraphNode item = bookkeeping("TupleGetItem");
    Operand tuple;
    tuple.kind = Operand::Kind::node;
    tuple.index = place;
    tuple.type = many.outputs[std::min<std::size_t>(slot, many.outputs.size() - 1)];
    item.inputs.push_back(tuple);
    Operand index;
    index.kind = Operand::Kind::constant;
    index.value = slot;
    index.type.dtype = DType::int64;
    item.inputs.push_back(index);
    item.outputs.push_back(tuple.type);
    item.trace = many.trace;
    return item;
  }

  GraphNode bookkeeping(std::string op_type) {
    GraphNode node;
    node.op_name = fmt::format("Default/{}-op{}", op_type, bookkeeping_count_[op_type]++);
    node.op_type = std::move(op_type);
    node.is_bookkeeping = true;
    return node;
  }

  // The results of the graph: those that no op reads.
  void join_sinks() {
    std::vector<std::uint32_t> sinks;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!is_read_[i]) sinks.push_back(places_[i]);
    }
    const bool last_is_it = sinks.size() == 1 && sinks[0] + 1 == to_.nodes.size();
    if (sinks.empty() || last_is_it) return;
    GraphNode tuple = bookkeeping("MakeTuple");
    for (const std::uint32_t sink : sinks) {
      Operand operand;
      operand.kind = Operand::Kind::node;
      operand.index = sink;
      operand.type = to_.nodes[sink].outputs.empty() ? nothing() : to_.nodes[sink].outputs[0];
      tuple.inputs.push_back(operand);
      tuple.outputs.push_back(operand.type);
    }
    to_.nodes.push_back(std::move(tuple));
  }

  Graph from_, to_;
  std::vector<std::uint32_t> places_;  // of an old node among the new
  std::vector<bool> is_read_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> items_;
  std::map<std::string, std::uint32_t> bookkeeping_count_;
};

}  // namespace

Graph with_tuples(Graph graph) { return Tupler(std::move(graph)).run(); }

}  // namespace sonde
