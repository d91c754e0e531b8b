#include "ask/first_bad/value_flow.h"

#include <fmt/format.h>

#include "ask/first_bad/flow_facts.h"
#include "dump/formats/free_names.h"
#include "ground/base/shape.h"

namespace sonde {

std::string_view word_of(End end) {
  switch (end) {
    case End::absorbed:
      return "absorbed";
    case End::unknown:
      return "unknown";
    case End::unread:
      return "unread";
    case End::decides:
      return "decides";
    case End::scaler:
      return "scaler";
    case End::matters:
      return "matters";
  }
  return "";
}

bool begins_backward(std::string_view op_type) { return bare_type(op_type) == "oneslike"; }

LossPlaces loss_places(const CatalogRank& rank) {
  LossPlaces places;
  for (const CatalogStep& step : rank.steps) {
    DataFlow flow(rank);
    for (const CatalogOp& op : step.ops) {
      if (op.is_parameter) continue;
      if (begins_backward(op.op_type) && !op.tensors.empty() && is_scalar(&op.tensors[0])) {
        const std::optional<DataFlow::Maker> maker = flow.maker(op.tensors[0]);
        if (maker && maker->op->line != 0) places.insert({maker->op->source_file, maker->op->line, maker->op->op_type});
      }
      flow.add(op);
    }
  }
  return places;
}

ValueFlow::ValueFlow(const CatalogRank& rank, std::size_t step, HealthReader& health, Options options)
    : health_(health),
      options_(options),
      flow_(rank),
      run_(rank.steps[step].run),
      is_evaluation_(rank.steps[step].id.graph != 0) {
  add_step(rank.steps[step], false);
  // Edges that other tools' graphs lack, or assign to another step, are inferred too.
  if (!has_edges_ || !rank.has_journal || rank.steps[step].is_mended) infer_edges();
  if (has_edges_ && rank.has_journal && step + 1 < rank.steps.size() && rank.steps[step + 1].run == run_) {
    add_step(rank.steps[step + 1], true);
  }
  if (!rank.has_journal) add_unsaid();
  look_behind_views();
  find_scaler();
  find_read_gradients();
  find_flags();
  find_ends();
  find_roots();
}

void ValueFlow::add_step(const CatalogStep& step, bool is_next) {
  for (const CatalogOp& op : step.ops) {
    if (!op.is_parameter) add_op(op, is_next);
  }
}

void ValueFlow::add_op(const CatalogOp& op, bool is_next) {
  const auto index = static_cast<std::uint32_t>(ops_.size());
  Op& added = ops_.emplace_back();
  added.op = &op;
  added.nature = nature_of(op);
  added.phase = phase_of(op);
  added.is_next = is_next;
  MsprobeName name;
  added.is_reversed = parse_msprobe_name(op.op_name, name) && name.is_backward && !name.is_gradient;
  if (added.is_reversed) added.nature.only_moves = added.nature.in_place = false;  // expand adds up, in its backward
  if (!is_next) {
    trains_ = trains_ || added.phase == Phase::backward || added.phase == Phase::optimizer;
    has_modules_ = has_modules_ || added.phase == Phase::forward;
  }
  for (const CatalogTensor& tensor : op.tensors) {
    if (!is_next && health_.of(tensor).known) ++tensors_;
    if (!tensor.is_input) {
      added.outputs.push_back(add_value(index, tensor.slot, &tensor));
      continue;
    }
    Input input;
    input.tensor = &tensor;
    // Data that the program brings in lies in memory that the program itself has written.
    input.is_read = !added.nature.shape_only && !added.nature.uninitialised && !added.nature.brings &&
                    tensor.slot < added.nature.most_inputs && !(added.nature.overwrites && tensor.slot == 0);
    const std::optional<DataFlow::Maker> maker = flow_.maker(tensor);
    if (tensor.source != kNoSequence) has_edges_ = true;
    input.value = maker ? value_of(maker->number, maker->slot) : outside_value(tensor);
    values_[input.value].readers.push_back({index, static_cast<std::uint32_t>(added.inputs.size())});
    added.inputs.push_back(input);
  }
  flow_.add(op);
}

std::uint32_t ValueFlow::add_value(std::uint32_t op, std::uint32_t slot, const CatalogTensor* tensor) {
  Value value;
  value.op = op;
  value.slot = slot;
  value.tensor = tensor;
  values_.push_back(value);
  return static_cast<std::uint32_t>(values_.size() - 1);
}

// Makes the value if it is not a result, such as a mask that the op saved for backward.
std::uint32_t ValueFlow::value_of(std::uint32_t op, std::uint32_t slot) {
  for (const std::uint32_t value : ops_[op].outputs) {
    if (values_[value].slot == slot) return value;
  }
  const std::uint32_t value = add_value(op, slot, nullptr);
  ops_[op].outputs.push_back(value);
  return value;
}

std::uint32_t ValueFlow::outside_value(const CatalogTensor& tensor) {
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

void ValueFlow::join(std::uint32_t op, std::uint32_t input, std::uint32_t value) {
  Input& joined = ops_[op].inputs[input];
  std::erase_if(values_[joined.value].readers,
                [&](const Reader& reader) { return reader.op == op && reader.input == input; });
  joined.value = value;
  values_[value].readers.push_back({op, input});
}

// The check ran, and no operator of an optimizer after it.
void ValueFlow::find_scaler() {
  bool checked = false, stepped = false;
  for (const Op& op : ops_) {
    if (op.is_next) break;
    checked = checked || op.nature.checks_gradients;
    stepped = stepped || (checked && op.phase == Phase::optimizer);
  }
  scaler_skipped_ = checked && !stepped;
}

void ValueFlow::find_read_gradients() {
  std::size_t read = 0;
  for (const Op& op : ops_) {
    if (op.is_next || op.phase != Phase::optimizer) continue;
    for (const Input& input : op.inputs) {
      const Op* made_by = maker(input);
      const bool is_gradient =
          input.tensor->parameter.ends_with(".grad") || (made_by != nullptr && made_by->phase == Phase::backward);
      if (!is_gradient || !input.is_read) continue;
      const Health health = health_of(input);
      if (!health.known || health.bad()) return;
      ++read;
    }
  }
  optimizer_reads_finite_ = read > 0;
}

// The earlier contents of a value's memory: for an op that writes in place, its input; for a view, its base.
std::optional<std::uint32_t> ValueFlow::older(std::uint32_t index) const {
  const Value& value = values_[index];
  if (value.op == kOutside) return std::nullopt;
  const Op& op = ops_[value.op];
  if (!op.nature.in_place && !op.nature.only_moves) return std::nullopt;
  for (const Input& input : op.inputs) {
    if (input.tensor->is_input && input.tensor->slot == (op.nature.in_place ? value.slot : 0)) return input.value;
  }
  return std::nullopt;
}

Health ValueFlow::health_of(const Input& input) {
  const Health& own = health_.of(*input.tensor);
  return own.known ? own : health_of_value(input.value);
}

Health ValueFlow::health_of_value(std::uint32_t index) {
  Value& value = values_[index];
  if (value.health_known) return value.health;
  value.health_known = true;
  if (value.tensor != nullptr && value.op != kOutside) value.health = health_.of(*value.tensor);
  if (!value.health.known) {
    for (const Reader& reader : value.readers) {
      if (ops_[reader.op].nature.brings) continue;
      value.health.add(health_.of(*ops_[reader.op].inputs[reader.input].tensor));
    }
  }
  // print() selects no element of one number that is not finite.
  const bool is_empty = value.tensor != nullptr && value.tensor->has_shape && element_count(value.tensor->shape) == 0;
  if (is_empty) value.health.known = true;
  // Its op was not kept, since it had no bad tensor.
  if (!value.health.known && options_.only_overflows) value.health.known = true;
  return value.health;
}

const ValueFlow::Op* ValueFlow::maker(const Input& input) const {
  const std::uint32_t op = values_[input.value].op;
  return op == kOutside ? nullptr : &ops_[op];
}

const CatalogTensor* ValueFlow::made(const Input& input) const {
  return values_[input.value].op == kOutside ? nullptr : values_[input.value].tensor;
}

// In `_foreach_…` the k-th result comes from the k-th elements of each list, and from arguments that are not lists.
bool ValueFlow::feeds(const Op& op, const Input& input, std::uint32_t output_slot) const {
  if (!op.nature.is_list || input.tensor == nullptr) return true;
  std::uint32_t size = 0;
  for (const CatalogTensor& tensor : op.op->tensors) size += tensor.is_input ? 0 : 1;
  if (op.nature.checks_gradients && size > 0) --size;  // the last output is the flag whether any was bad
  if (size == 0 || output_slot >= size) return true;
  const std::uint32_t inputs = static_cast<std::uint32_t>(op.inputs.size());
  const std::uint32_t in_lists = inputs / size * size;
  return input.tensor->slot >= in_lists || input.tensor->slot % size == output_slot;
}

Health ValueFlow::inputs_of(const Op& op, std::uint32_t output_slot, bool* all_known) {
  Health all;
  for (const Input& input : op.inputs) {
    if (!input.is_read || !feeds(op, input, output_slot)) continue;
    const Health health = health_of(input);
    all.add(health);
    if (all_known != nullptr && !health.known && may_be_floating(input.tensor) && !is_weight(*input.tensor) &&
        input.tensor->skipped != kUninitialised) {
      *all_known = false;
    }
  }
  return all;
}

}  // namespace sonde
