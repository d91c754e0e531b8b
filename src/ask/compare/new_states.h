// A new optimizer beside one that has gone on, after a checkpoint that lacks its state.
#pragma once

#include "ask/compare/pair_inputs.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// Named as the state, not as the ops that fill it with zeros. True if the input is such a state.
bool report_new_state(const CompareFacts& facts, StepFindings& findings, const ComparedOp& op, const PairedInput& input,
                      ComparedTensor& shown);

}  // namespace sonde
