// NaN or infinity made by an op without a counterpart.
#pragma once

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// An op without a counterpart whose finite inputs give NaN, or an infinity that stays until the end of the step: nothing
// that both dumps have needs to read it, as the end of a loss. A mask of `-inf` is none.
void find_not_finite_alone(const CompareFacts& facts, StepFindings& findings);

}  // namespace sonde
