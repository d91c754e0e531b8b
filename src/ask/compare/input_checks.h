// The inputs of an op: parameters and data with other values, tensors of another op, tensors changed on the way.
#pragma once

#include "ask/compare/pair_inputs.h"
#include "ask/compare/step_findings.h"

namespace sonde {

void check_inputs(const CompareFacts& facts, StepFindings& findings, ComparedOp& op,
                  const std::vector<PairedInput>& inputs);
// The op passes elements on in another order, and nothing else shows it.
void check_order(const CompareFacts& facts, StepFindings& findings, ComparedOp& op,
                 const std::vector<PairedInput>& inputs);

// The op without a counterpart that made an input, if the golden dump does not say what the counterpart read; null:
// none. `by_shape`: also one that only moves or casts.
const CatalogOp* alone_before(const CompareFacts& facts, const std::vector<PairedInput>& inputs, bool by_shape);

}  // namespace sonde
