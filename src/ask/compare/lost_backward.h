// A backward pass that only one of the two runs has: gradients that are not differentiated again, a forward part without
// gradients.
#pragma once

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// A finding where such a backward joins the rest is about all of it, once.
void find_lost_backward(const CompareFacts& facts, StepFindings& findings);

}  // namespace sonde
