// Losses that backward passes begin with: one for each part of a batch.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// The operators that backward passes begin with: each gives a loss the gradient 1.
std::vector<std::uint32_t> begins_of_backward(const CompareSide& side);
bool is_begin_of_backward(const CompareSide& side, std::uint32_t op);

// Of the operators that multiply the loss by a number: the one with this factor, or the last one; kNoOp: there are none.
std::uint32_t scaled_loss(const CompareSide& side, std::uint32_t loss, double factor);

// Names the loss whose parts weigh the same although they count different numbers of elements, where the mean over all
// elements is the same on both sides. `gradient`: how the gradient differs. False: it is not so, or not known.
bool report_uneven_parts(const CompareFacts& facts, StepFindings& findings, std::string_view gradient);

}  // namespace sonde
