// Pairs the tensors that two ops, or two groups of ops, read, and measures their distance.
#pragma once

#include <vector>

#include "ask/compare/compare_facts.h"

namespace sonde {

struct GroupInput {
  const CompareInput* input = nullptr;
  std::uint32_t op = 0;
};

struct PairedInput {
  GroupInput target, golden;  // golden.input null: only the target's difference is known
  const TensorDifference* difference = nullptr;
};

std::vector<PairedInput> pair_inputs(const CompareFacts& facts, const Group& target, const Group& golden);

}  // namespace sonde
