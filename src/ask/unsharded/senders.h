// From what a rank has received to the op of another rank that sent it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ask/unsharded/whole_step.h"

namespace sonde {

// An op that sends, in this step, and what it sends.
struct SentPart {
  std::size_t rank = 0;
  std::uint32_t op = kNoOp;
  const CompareInput* input = nullptr;
};

// The op of a receive from which the rank has what is read, maybe through views and copies; kNoOp: it has it from elsewhere.
std::uint32_t receive_behind(const CompareSide& side, const CompareInput& read);

// The send of another rank in this step whose values the op of `side`, this rank's step or the one before, received.
// Nothing: it is not known, or is of another step.
std::optional<SentPart> sent_part(const WholeStep& step, std::size_t rank, const CompareSide& side,
                                  std::uint32_t receive);

}  // namespace sonde
