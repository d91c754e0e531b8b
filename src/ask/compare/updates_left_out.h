// A parameter or state that one of the two writes and the other only reads.
#pragma once

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

void find_updates_left_out(const CompareFacts& facts, StepFindings& findings);

}  // namespace sonde
