// StepId and Phase: the time of an operator in a run.
#pragma once

#include <cstdint>
#include <string_view>

#include "sonde/export.h"

namespace sonde {

// The activity of the program. The numbers are those of the journal.
enum class Phase : std::uint8_t {
  forward = 0,
  backward = 1,
  optimizer = 2,
  outside = 3,    // of the program itself: in no module, no backward and no optimizer
  recompute = 4,  // forward again, for activation checkpointing
};
SONDE_EXPORT std::string_view word_of(Phase phase);  // "forward", …

struct StepId {
  std::uint32_t graph = 0;   // 0 training, others without gradients
  std::uint64_t number = 0;  // initial_iteration already added
  friend bool operator==(const StepId&, const StepId&) = default;
};

}  // namespace sonde
