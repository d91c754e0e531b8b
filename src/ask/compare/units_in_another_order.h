// Units of a layer in another order: what they give has the same elements, in that order. The op of which that is not
// true any more computes something else.
#pragma once

#include "ask/compare/step_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// The weights that put the units in another order are no findings, then.
void look_at_units_in_another_order(const StepFacts& facts, StepFindings& findings);

}  // namespace sonde
