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

// Of one input; `shown` is the same in op.inputs.

// A parameter or data from outside the step that has other values than the golden ones.
void check_parameter(const CompareFacts& facts, StepFindings& findings, ComparedOp& op, const PairedInput& input,
                     ComparedTensor& shown);
// It comes from another op than the golden one.
void check_wiring(const CompareFacts& facts, StepFindings& findings, ComparedOp& op, const PairedInput& input,
                  ComparedTensor& shown);
// Nothing shows how the tensor was made: it comes from ops that were not recorded (inside a transformation as vmap), or
// nobody saw its memory written. True if one of them is to blame.
bool check_unseen(const CompareFacts& facts, StepFindings& findings, const ComparedOp& op, const PairedInput& input,
                  ComparedTensor& shown);
// A new optimizer beside one that has gone on, after a checkpoint that lacks its state: named as the state, not as the
// ops that fill it with zeros. True if the input is such a state.
bool report_new_state(const CompareFacts& facts, StepFindings& findings, const ComparedOp& op, const PairedInput& input,
                      ComparedTensor& shown);
// A number that one side writes out and the other one has as a tensor of a coarser type: the same number, rounded.
bool is_number_rounded(const PairedInput& input);

}  // namespace sonde
