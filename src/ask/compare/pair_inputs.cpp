#include "ask/compare/pair_inputs.h"

#include <algorithm>

#include "ask/compare/compare_words.h"
#include "ground/base/shape.h"

namespace sonde {

namespace {

std::vector<GroupInput> inputs_of(const CompareSide& side, const Group& group) {
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

const TensorDifference* known_difference(const CompareFacts& facts, const GroupInput& target,
                                         const GroupInput& golden) {
  if (golden.input != nullptr && target.input->tensor->recorded() && golden.input->tensor->recorded()) {
    const TensorDifference& found = facts.difference(target.input->tensor, golden.input->tensor);
    if (found.by != ComparedBy::nothing || !found.same_shape) return &found;
  }
  // Uses the op it comes from; skips ops without a counterpart, which may only pad or cast it.
  const CompareInput* input = target.input;
  for (std::size_t steps = 0; steps <= kLongestChain && input->from != kNoOp; ++steps) {
    const ComparedOp* from = facts.pairs.of_target(input->from);
    if (from == nullptr) return nullptr;
    for (const ComparedTensor& output : from->outputs) {
      if (output.target->slot == input->from_slot || from->outputs.size() == 1) return output.difference;
    }
    const std::vector<CompareInput>& before = facts.target.ops[input->from].inputs;
    if (!from->golden.empty() || before.empty()) return nullptr;
    input = &before.front();
  }
  return nullptr;
}

// Other arguments, also those of another framework, may do in one what an op does in the other, as `padding` does what
// pad does. A result of the same shape shows whether another size of what they read matters.
bool are_called_alike(const CompareFacts& facts, std::uint32_t target, std::uint32_t golden) {
  const CatalogOp &left = *facts.target.ops[target].op, &right = *facts.golden.ops[golden].op;
  if (left.op_type != right.op_type || !attributes_apart(left, right).empty()) return false;
  for (const CatalogTensor* mine : facts.target.ops[target].outputs) {
    const CatalogTensor* theirs = facts.golden.output(golden, mine->slot);
    if (theirs != nullptr && mine->has_shape && theirs->has_shape && mine->shape == theirs->shape) return true;
  }
  return false;
}

// An op of one side alone is between: it reads what the other side's op reads directly.
bool is_one_resized(const CompareFacts& facts, const CompareInput& target, const CompareInput& golden) {
  if (target.from == kNoOp || golden.from == kNoOp) return false;
  const bool in_golden = facts.pairs.is_free_golden(golden.from);
  if (in_golden == facts.pairs.is_alone(false, target.from)) return false;
  const CompareOp& between = in_golden ? facts.golden.ops[golden.from] : facts.target.ops[target.from];
  return std::ranges::any_of(between.inputs, [&](const CompareInput& read) {
    return in_golden ? facts.pairs.same_producer(target, read) : facts.pairs.same_producer(read, golden);
  });
}

}  // namespace

std::vector<PairedInput> pair_inputs(const CompareFacts& facts, const Group& target, const Group& golden) {
  const std::vector<GroupInput> left = inputs_of(facts.target, target);
  std::vector<GroupInput> right = inputs_of(facts.golden, golden);
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
  const bool one_type = single && shared_type(facts.target.ops[target[0]].op->op_type) ==
                                      shared_type(facts.golden.ops[golden[0]].op->op_type);
  const auto& name = [](const GroupInput& of) { return of.input->name; };
  const auto same_size = [](const GroupInput& a, const GroupInput& b) {
    return same_elements(*a.input->tensor, *b.input->tensor);
  };
  if (one_type) {  // inputs in the same slot stay paired
    pass([&](const GroupInput& a, const GroupInput& b) {
      return a.input->tensor->slot == b.input->tensor->slot && facts.pairs.same_producer(*a.input, *b.input);
    });
  }
  pass([&](const GroupInput& a, const GroupInput& b) {
    return facts.pairs.same_producer(*a.input, *b.input) && same_size(a, b);
  });
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
             (from_outside || facts.pairs.same_producer(*a.input, *b.input));
    });
  }
  if (one_type && are_called_alike(facts, target[0], golden[0])) {
    // One side alone first selects, packs or joins what it reads: the other reads all of it.
    pass([&](const GroupInput& a, const GroupInput& b) {
      return a.input->tensor->slot == b.input->tensor->slot && a.input->is_read && b.input->is_read &&
             is_one_resized(facts, *a.input, *b.input);
    });
  }
  for (PairedInput& pair : pairs) pair.difference = known_difference(facts, pair.target, pair.golden);
  return pairs;
}

}  // namespace sonde
