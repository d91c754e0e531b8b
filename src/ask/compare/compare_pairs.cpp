// Pairs the tensors of two ops and measures their distance.
#include <algorithm>

#include "ask/compare/compare_step.h"
#include "ground/base/shape.h"

namespace sonde {

bool same_elements(const CatalogTensor& a, const CatalogTensor& b) {
  return !a.has_shape || !b.has_shape || element_count(a.shape) == element_count(b.shape);
}

std::vector<GroupInput> StepComparer::inputs_of(const CompareSide& side, const Group& group) const {
  std::vector<GroupInput> inputs;
  for (const std::uint32_t op : group) {
    for (const CompareInput& input : side.ops[op].inputs) {
      if (input.from != kNoOp && std::ranges::find(group, input.from) != group.end()) continue;
      // Without data flow an op may have read all outputs of the one before it.
      if (!side.has_flow && op != group.front()) {
        const CompareOp& before = side.ops[op - 1];
        const bool inner = std::ranges::any_of(before.outputs, [&](const CatalogTensor* output) {
          return output->has_shape && input.tensor->has_shape && output->shape == input.tensor->shape;
        });
        if (inner) continue;
      }
      inputs.push_back({&input, op});
    }
  }
  return inputs;
}

bool StepComparer::same_producer(const CompareInput& target, const CompareInput& golden) const {
  if (target.from == kNoOp || golden.from == kNoOp) return false;
  const ComparedOp* compared = compared_as(target.from, golden.from);
  if (compared == nullptr) return false;
  const ComparedOp& from = *compared;
  if (target.from != from.target_index || golden.from != from.golden_index) return true;  // inside a fused one
  for (const ComparedTensor& output : from.outputs) {
    const bool left = output.target->slot == target.from_slot, right = output.golden->slot == golden.from_slot;
    if (left || right) return left && right;
  }
  return true;
}

const ComparedTensor* StepComparer::output_read(const CompareInput& target, const CompareInput& golden) const {
  if (!same_producer(target, golden)) return nullptr;
  const ComparedOp& from = *compared_as(target.from, golden.from);
  if (target.from != from.target_index || golden.from != from.golden_index) return nullptr;
  const auto at = std::ranges::find_if(
      from.outputs, [&](const ComparedTensor& output) { return output.target->slot == target.from_slot; });
  return at == from.outputs.end() ? nullptr : &*at;
}

const TensorDifference* StepComparer::known_difference(const GroupInput& target, const GroupInput& golden) {
  if (golden.input != nullptr && target.input->tensor->recorded() && golden.input->tensor->recorded()) {
    const TensorDifference& found = differences_.of(of_target(target.input->tensor), of_golden(golden.input->tensor));
    if (found.by != ComparedBy::nothing || !found.same_shape) return &found;
  }
  // Uses the op it comes from; skips ops without a counterpart, which may only pad or cast it.
  const CompareInput* input = target.input;
  for (std::size_t steps = 0; steps <= kLongestChain && input->from != kNoOp; ++steps) {
    const std::uint32_t owner = target_owner_[input->from];
    if (owner == kNone) return nullptr;
    const ComparedOp& from = step_.ops[owner];
    for (const ComparedTensor& output : from.outputs) {
      if (output.target->slot == input->from_slot || from.outputs.size() == 1) return output.difference;
    }
    const std::vector<CompareInput>& before = target_.ops[input->from].inputs;
    if (!from.golden.empty() || before.empty()) return nullptr;
    input = &before.front();
  }
  return nullptr;
}

std::vector<PairedInput> StepComparer::pair_inputs(const Group& target, const Group& golden) {
  const std::vector<GroupInput> left = inputs_of(target_, target);
  std::vector<GroupInput> right = inputs_of(golden_, golden);
  std::vector<PairedInput> pairs(left.size());
  std::vector<bool> used(right.size(), false);
  for (std::size_t i = 0; i < left.size(); ++i) pairs[i].target = left[i];
  const auto pass = [&](const auto& fits) {
    for (PairedInput& pair : pairs) {
      if (pair.golden.input != nullptr) continue;
      for (std::size_t j = 0; j < right.size(); ++j) {
        if (used[j] || !fits(pair.target, right[j])) continue;
        pair.golden = right[j];
        used[j] = true;
        break;
      }
    }
  };
  const bool single = target.size() == 1 && golden.size() == 1;
  const bool one_type =
      single && shared_type(target_.ops[target[0]].op->op_type) == shared_type(golden_.ops[golden[0]].op->op_type);
  const auto& name = [](const GroupInput& of) { return of.input->name; };
  const auto same_size = [](const GroupInput& a, const GroupInput& b) {
    return same_elements(*a.input->tensor, *b.input->tensor);
  };
  if (one_type) {  // inputs in the same slot stay paired
    pass([&](const GroupInput& a, const GroupInput& b) {
      return a.input->tensor->slot == b.input->tensor->slot && same_producer(*a.input, *b.input);
    });
  }
  pass([&](const GroupInput& a, const GroupInput& b) { return same_producer(*a.input, *b.input) && same_size(a, b); });
  pass([&](const GroupInput& a, const GroupInput& b) {
    return a.input->outside != 0 && a.input->outside == b.input->outside && same_size(a, b);
  });
  pass([&](const GroupInput& a, const GroupInput& b) {
    return !name(a).empty() && name(a) == name(b) && same_size(a, b);
  });
  if (one_type) {
    pass([&](const GroupInput& a, const GroupInput& b) {
      return a.input->tensor->slot == b.input->tensor->slot && same_size(a, b);
    });
  }
  pass([&](const GroupInput& a, const GroupInput& b) {
    return a.input->tensor->has_shape && b.input->tensor->has_shape &&
           squeezed(a.input->tensor->shape) == squeezed(b.input->tensor->shape);
  });
  pass([&](const GroupInput& a, const GroupInput& b) {
    return a.input->tensor->has_shape && b.input->tensor->has_shape && element_count(a.input->tensor->shape) > 1 &&
           same_size(a, b);
  });
  if (one_type) {  // of another size: its results cannot be compared either
    pass([&](const GroupInput& a, const GroupInput& b) {
      const bool from_outside = a.input->from == kNoOp && b.input->from == kNoOp;
      const bool is_read = a.input->is_read && b.input->is_read;
      return a.input->tensor->slot == b.input->tensor->slot && is_read &&
             (from_outside || same_producer(*a.input, *b.input));
    });
  }
  for (PairedInput& pair : pairs) pair.difference = known_difference(pair.target, pair.golden);
  return pairs;
}

}  // namespace sonde
