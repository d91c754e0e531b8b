// Units of a layer in another order: what they give has the same elements, in that order. The op of which that is not
// true any more computes something else.
#pragma once

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// It leaves out the weights that put the units in another order.
void look_at_units_in_another_order(const CompareFacts& facts, StepFindings& findings);

}  // namespace sonde
