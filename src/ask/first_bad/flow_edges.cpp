// Edges of a ValueFlow that the dump does not contain, or contains only in part.
#include <fmt/format.h>

#include <algorithm>

#include "ask/first_bad/flow_facts.h"
#include "ask/first_bad/value_flow.h"
#include "dump/formats/free_names.h"

namespace sonde {

// For dumps without data flow. A bad input is matched with the latest earlier bad output with the same shape
// and the same counts; for an op without inputs, with the op that ran before it.
void ValueFlow::infer_edges() {
  std::vector<std::uint32_t> bad;  // outputs, in order
  for (std::uint32_t op = 0; op < ops_.size(); ++op) {
    for (std::uint32_t i = 0; i < ops_[op].inputs.size(); ++i) {
      const CatalogTensor& tensor = *ops_[op].inputs[i].tensor;
      const Health& wanted = health_.of(tensor);
      if (!wanted.bad()) continue;
      const Value& source = values_[ops_[op].inputs[i].value];
      if (source.op != kOutside && source.tensor != nullptr) {
        const Health& made = health_.of(*source.tensor);
        if (made.known && (!wanted.nan || made.nan) && (!wanted.inf() || made.inf())) continue;
      }
      const auto same = [&](std::uint32_t value) {
        const CatalogTensor& made = *values_[value].tensor;
        const bool same_shape = !made.has_shape || !tensor.has_shape || made.shape == tensor.shape;
        const bool same_type =
            made.dtype == DType::undefined || tensor.dtype == DType::undefined || made.dtype == tensor.dtype;
        return same_shape && same_type && alike(health_.of(made), wanted);
      };
      const auto found = std::find_if(bad.rbegin(), bad.rend(), same);
      if (found == bad.rend()) continue;
      join(op, i, *found);
      inferred_ = true;
    }
    for (const std::uint32_t value : ops_[op].outputs) {
      if (values_[value].tensor != nullptr && health_.of(*values_[value].tensor).bad()) bad.push_back(value);
    }
  }
  for (std::uint32_t op = 1; op < ops_.size(); ++op) {
    if (has_edges_ || !ops_[op].inputs.empty() || ops_[op - 1].outputs.empty()) continue;
    Input input;
    input.value = ops_[op - 1].outputs.front();
    input.tensor = values_[input.value].tensor;
    values_[input.value].readers.push_back({op, 0});
    ops_[op].inputs.push_back(input);
  }
}

// Adds edges that msprobe's records lack. Backward reads the inputs and results of the same forward call; a module
// returns the result of its ops; the gradient of a parameter is computed from the inputs of its module's backward.
void ValueFlow::add_unsaid() {
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  std::unordered_map<std::string_view, std::vector<std::uint32_t>>
      inside;  // by module, of those that ran before its end
  for (std::uint32_t op = 0; op < ops_.size(); ++op) {
    if (ops_[op].op->is_module) by_name.emplace(ops_[op].op->op_name, op);
  }
  for (std::uint32_t op = 0; op < ops_.size(); ++op) {
    const std::string_view op_name = ops_[op].op->op_name;
    MsprobeName name;
    if (!parse_msprobe_name(op_name, name)) continue;
    by_name.emplace(op_name, op);
    if (name.is_gradient) {
      const std::string module(op_name.substr(0, op_name.rfind(".parameters_grad")));
      for (std::uint64_t call = 0;; ++call) {
        const auto backward = by_name.find(fmt::format("{}.backward.{}", module, call));
        if (backward == by_name.end()) break;
        add_unsaid(op, backward->second, false);
      }
    } else if (name.is_backward) {
      std::string forward(op_name);
      if (const std::size_t at = forward.rfind(".backward"); at != std::string::npos)
        forward.replace(at, 9, ".forward");
      if (const auto found = by_name.find(forward); found != by_name.end()) add_unsaid(op, found->second, true);
    }
    for (const std::uint32_t part : inside[op_name]) {
      for (const std::uint32_t value : ops_[part].outputs) add_unsaid_value(op, value);
    }
    if (!ops_[op].op->parent.empty()) inside[ops_[op].op->parent].push_back(op);
  }
}

void ValueFlow::add_unsaid(std::uint32_t op, std::uint32_t other, bool outputs_too) {
  const std::vector<Input> read = ops_[other].inputs;
  for (Input input : read) {
    if (input.is_unsaid) continue;
    input.is_unsaid = true;
    values_[input.value].readers.push_back({op, static_cast<std::uint32_t>(ops_[op].inputs.size())});
    ops_[op].inputs.push_back(input);
  }
  if (!outputs_too) return;
  for (const std::uint32_t value : ops_[other].outputs) add_unsaid_value(op, value);
}

void ValueFlow::add_unsaid_value(std::uint32_t op, std::uint32_t value) {
  if (values_[value].tensor == nullptr) return;
  values_[value].readers.push_back({op, static_cast<std::uint32_t>(ops_[op].inputs.size())});
  ops_[op].inputs.push_back({.tensor = values_[value].tensor, .value = value, .is_unsaid = true});
}

// Whether a reader of this memory with this shape reads exactly these elements. If the memory was last written in
// place, that may have been in another part of it.
bool ValueFlow::covers(std::uint32_t index, const CatalogTensor& read) const {
  for (std::size_t depth = 0; depth < kLongestPath; ++depth) {
    const Value& value = values_[index];
    if (value.op == kOutside) return !value.tensor->parameter.empty();
    if (value.tensor == nullptr || !value.tensor->has_shape || value.tensor->shape != read.shape) return false;
    const OpNature& nature = ops_[value.op].nature;
    if (!nature.in_place) return depth == 0 || !nature.only_moves;
    const std::optional<std::uint32_t> before = older(index);
    if (!before) return false;
    index = *before;
  }
  return false;
}

// An input comes from the last writer of its memory. If that was another view of it, the data is from an earlier op.
void ValueFlow::look_behind_views() {
  for (std::uint32_t op = 0; op < ops_.size(); ++op) {
    for (std::uint32_t i = 0; i < ops_[op].inputs.size(); ++i) {
      const Input& input = ops_[op].inputs[i];
      const Health& seen = health_.of(*input.tensor);
      const Value& source = values_[input.value];
      if (!seen.bad() || source.op == kOutside || source.tensor == nullptr) continue;
      const Health& made = health_.of(*source.tensor);
      const bool explained = (!seen.nan || made.nan) && (!seen.inf() || made.inf());
      if (!made.known || explained || covers(input.value, *input.tensor)) continue;
      std::optional<std::uint32_t> before = older(input.value);
      for (std::size_t depth = 0; before && depth < kLongestPath; ++depth) {
        const Value& candidate = values_[*before];
        if (candidate.op == kOutside || ops_[candidate.op].nature.uninitialised) break;
        const Health found = candidate.tensor != nullptr ? health_.of(*candidate.tensor) : Health();
        if (found.known && (!seen.nan || found.nan) && (!seen.inf() || found.inf())) break;
        before = older(*before);
      }
      join(op, i, before ? *before : outside_value(*input.tensor));
    }
  }
}

}  // namespace sonde
