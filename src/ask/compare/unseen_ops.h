// Differences whose origin was not recorded: ops inside a transformation (vmap), memory that nobody saw written.
#pragma once

#include "ask/compare/pair_inputs.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// Nothing shows how the tensor was made: the ops that made it were not recorded. True if one of them is to blame.
bool check_unseen(const CompareFacts& facts, StepFindings& findings, const ComparedOp& op, const PairedInput& input,
                  ComparedTensor& shown);

// Nothing is to blame, although an op's output differs and what it reads agrees: never passed over in silence.
void find_jump(const CompareFacts& facts, StepFindings& findings);

}  // namespace sonde
