// Findings that are uncertain: other explanations are possible.
#pragma once

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// Ops around it have no counterpart: if two programs are built differently, one of those may be the cause.
void note_doubts(const CompareFacts& facts, StepFindings& findings);

// Nothing else than their order shows that the op and its counterpart belong together.
bool rests_on_order(const CompareFacts& facts, const CompareFinding& finding);

}  // namespace sonde
