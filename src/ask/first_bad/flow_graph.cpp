#include "ask/first_bad/flow_graph.h"

#include <fmt/format.h>

#include "ask/first_bad/flow_facts.h"
#include "dump/formats/free_names.h"
#include "ground/base/shape.h"
#include "read/operators/op_questions.h"

namespace sonde {

void FlowGraph::add_step(const CatalogStep& step, bool is_next) {
  for (const CatalogOp& op : step.ops) {
    if (!op.is_parameter) add_op(op, is_next);
  }
}

void FlowGraph::add_op(const CatalogOp& op, bool is_next) {
  const auto index = static_cast<std::uint32_t>(ops_.size());
  FlowOp& added = ops_.emplace_back();
  added.op = &op;
  added.nature = nature_of(op);
  added.phase = phase_of(op);
  added.is_next = is_next;
  MsprobeName name;
  added.is_reversed = parse_msprobe_name(op.op_name, name) && name.is_backward && !name.is_gradient;
  if (added.is_reversed) added.nature.only_moves = added.nature.in_place = false;  // expand adds up, in its backward
  for (const CatalogTensor& tensor : op.tensors) {
    if (!tensor.is_input) {
      ++added.list_size;
      added.outputs.push_back(add_value(index, tensor.slot, &tensor));
      continue;
    }
    FlowInput input;
    input.tensor = &tensor;
    // Data that the program brings in lies in memory that the program itself has written.
    input.is_read = !added.nature.brings && reads_values(added.nature, tensor);
    const std::optional<DataFlow::Maker> maker = flow_.maker(tensor);
    if (tensor.source != kNoSequence) has_edges_ = true;
    input.value = maker ? value_of(maker->number, maker->slot) : outside_value(tensor);
    add_input(index, input);
  }
  added.said_inputs = static_cast<std::uint32_t>(added.inputs.size());
  // The last output is the flag whether any was bad.
  if (added.nature.checks_gradients && added.list_size > 0) --added.list_size;
  flow_.add(op);
}

std::uint32_t FlowGraph::add_value(std::uint32_t op, std::uint32_t slot, const CatalogTensor* tensor) {
  FlowValue value;
  value.op = op;
  value.slot = slot;
  value.tensor = tensor;
  values_.push_back(value);
  return static_cast<std::uint32_t>(values_.size() - 1);
}

// Makes the value if it is not a result, such as a mask that the op saved for backward.
std::uint32_t FlowGraph::value_of(std::uint32_t op, std::uint32_t slot) {
  for (const std::uint32_t value : ops_[op].outputs) {
    if (values_[value].slot == slot) return value;
  }
  const std::uint32_t value = add_value(op, slot, nullptr);
  ops_[op].outputs.push_back(value);
  return value;
}

std::uint32_t FlowGraph::outside_value(const CatalogTensor& tensor) {
  std::string key;
  if (!tensor.parameter.empty()) {
    key = tensor.parameter;
  } else if (tensor.source != kNoSequence) {
    key = fmt::format("#{}.{}", tensor.source, tensor.source_slot);
  } else if (tensor.content != 0) {
    key = fmt::format("={}", tensor.content);
  }
  if (key.empty()) return add_value(kOutside, tensor.slot, &tensor);
  const auto [known, is_new] = outside_.try_emplace(key, 0);
  if (is_new) known->second = add_value(kOutside, tensor.slot, &tensor);
  return known->second;
}

void FlowGraph::join(std::uint32_t op, std::uint32_t input, std::uint32_t value, bool is_in_parts) {
  FlowInput& joined = ops_[op].inputs[input];
  std::erase_if(values_[joined.value].readers,
                [&](const FlowReader& reader) { return reader.op == op && reader.input == input; });
  joined.value = value;
  joined.is_in_parts = is_in_parts;
  values_[value].readers.push_back({op, input});
}

void FlowGraph::add_input(std::uint32_t op, FlowInput input) {
  values_[input.value].readers.push_back({op, static_cast<std::uint32_t>(ops_[op].inputs.size())});
  ops_[op].inputs.push_back(input);
}

std::optional<std::uint32_t> FlowGraph::older(std::uint32_t index) const {
  const FlowValue& value = values_[index];
  if (value.op == kOutside) return std::nullopt;
  const FlowOp& op = ops_[value.op];
  for (const FlowInput& input : op.inputs) {  // `out=`
    if (input.tensor->skipped.reason == NotRead::only_written) return input.value;
  }
  if (!op.nature.in_place && !op.nature.only_moves) return std::nullopt;
  for (const FlowInput& input : op.inputs) {
    if (input.tensor->is_input && input.tensor->slot == (op.nature.in_place ? value.slot : 0)) return input.value;
  }
  return std::nullopt;
}

Health FlowGraph::health_of(const FlowInput& input) const {
  const Health& own = health_.of(*input.tensor);
  return own.known ? own : health_of_value(input.value);
}

Health FlowGraph::health_of_value(std::uint32_t index) const {
  const FlowValue& value = values_[index];
  if (value.health) return *value.health;
  Health health;
  if (value.tensor != nullptr && value.op != kOutside) health = health_.of(*value.tensor);
  if (!health.known) {
    for (const FlowReader& reader : value.readers) {
      if (ops_[reader.op].nature.brings) continue;
      health.add(health_.of(*ops_[reader.op].inputs[reader.input].tensor));
    }
  }
  // print() selects no element of one number that is not finite.
  const bool is_empty = value.tensor != nullptr && value.tensor->has_shape && element_count(value.tensor->shape) == 0;
  // An op that was not kept had no bad tensor.
  health.known = health.known || is_empty || only_overflows_;
  value.health = health;
  return health;
}

const FlowOp* FlowGraph::maker(const FlowInput& input) const {
  const std::uint32_t op = values_[input.value].op;
  return op == kOutside ? nullptr : &ops_[op];
}

const CatalogTensor* FlowGraph::made(const FlowInput& input) const {
  return values_[input.value].op == kOutside ? nullptr : values_[input.value].tensor;
}

bool FlowGraph::feeds(const FlowOp& op, const FlowInput& input, std::uint32_t output_slot) const {
  if (!op.nature.is_list || input.is_unsaid || input.tensor == nullptr) return true;
  return feeds_in_list(op.said_inputs, op.list_size, input.tensor->slot, output_slot);
}

Health FlowGraph::inputs_of(const FlowOp& op, std::uint32_t output_slot, bool* all_known) const {
  Health all;
  for (const FlowInput& input : op.inputs) {
    if (!input.is_read || !feeds(op, input, output_slot)) continue;
    const Health health = health_of(input);
    all.add(health);
    if (all_known != nullptr && !health.known && may_be_floating(input.tensor) && !is_weight(*input.tensor) &&
        !input.tensor->skipped.is_undefined()) {
      *all_known = false;
    }
  }
  return all;
}

}  // namespace sonde
