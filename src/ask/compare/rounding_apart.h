// Differences that the rounding of a coarse type (bfloat16, float16) would explain, although the two programs ask for
// something else: an op computes in another type, or with another number. Never passed over in silence.
#pragma once

#include "ask/compare/pair_inputs.h"
#include "ask/compare/step_findings.h"

namespace sonde {

void find_rounding_apart(const CompareFacts& facts, StepFindings& findings);

// A number that one side writes out and the other one has as a tensor of a coarser type: the same number, rounded.
bool is_number_rounded(const PairedInput& input);

}  // namespace sonde
