// Statistics do not show the order of elements.
#pragma once

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// For an op with seemingly equal inputs, the op before it that may have put them in another order.
void blame_reordering(const CompareFacts& facts, StepFindings& findings);

}  // namespace sonde
