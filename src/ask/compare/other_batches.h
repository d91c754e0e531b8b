// Batches that are cut in another way (gradient accumulation, several processes): no op has a counterpart of its shape,
// but the gradients that the optimizer reads are those of the same parameters.
#pragma once

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// With other batches numbers, shapes and values all differ; parameters and the sums of their gradients do not. True if
// the batches are others.
bool leave_other_batches_out(const CompareFacts& facts, StepFindings& findings);

}  // namespace sonde
