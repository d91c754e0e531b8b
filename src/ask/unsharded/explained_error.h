// How far a golden op's results may be apart: by its own rounding, and by what both runs read.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ask/compare/tolerance.h"
#include "ask/unsharded/whole_step.h"

namespace sonde {

// An input, as both sides read it.
struct ReadBeside {
  std::uint32_t slot = 0;
  bool is_noise = false, may_be_anything = false;
  Joined joined;
};

// The work of a golden op, or of the call of which it is the last op.
struct WorkDone {
  const CompareOp& last;
  std::string_view type;
  OpKind kind = OpKind::other;
  bool is_backward = false;
};

// By the op's own rounding, and by what its inputs are apart. Nothing: the output differs by more.
std::optional<double> explained_error(const WorkDone& work, std::size_t output, const TensorDifference& difference,
                                      const std::vector<ReadBeside>& inputs, double tolerance, const Tolerances& given);

// The gradients that the optimizer reads may be apart by as much as the ops of the backward pass have left them: the
// rounding of the loss is in all of their rows.
bool is_apart_as_made(const WholeStep& step, std::uint32_t golden, const CompareInput& input, const Joined& read);

}  // namespace sonde
