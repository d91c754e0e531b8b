// An input that comes from another op than the golden one.
#pragma once

#include "ask/compare/pair_inputs.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// `shown`: the input, in op.inputs.
void check_wiring(const CompareFacts& facts, StepFindings& findings, ComparedOp& op, const PairedInput& input,
                  ComparedTensor& shown);

}  // namespace sonde
