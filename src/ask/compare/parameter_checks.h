// A parameter or data from outside the step that has other values than the golden ones.
#pragma once

#include "ask/compare/pair_inputs.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// `shown`: the input, in op.inputs.
void check_parameter(const CompareFacts& facts, StepFindings& findings, ComparedOp& op, const PairedInput& input,
                     ComparedTensor& shown);

}  // namespace sonde
