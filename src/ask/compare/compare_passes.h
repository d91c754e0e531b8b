// The passes over a step of two dumps, which compare_step.cpp runs one after the other.
#pragma once

#include "ask/compare/compare_facts.h"
#include "ask/compare/step_findings.h"

namespace sonde {

// Batches that are cut in another way (gradient accumulation, several processes): numbers, shapes and values all differ;
// parameters do not, nor do the sums of the gradients that the optimizer reads. True if the batches are others.
bool leave_other_batches_out(const CompareFacts& facts, StepFindings& findings);

// An op without a counterpart whose finite inputs give NaN, or an infinity that stays until the end of the step: nothing
// that both dumps have needs to read it, as the end of a loss. A mask of `-inf` is none.
void find_not_finite_alone(const CompareFacts& facts, StepFindings& findings);

// A parameter or state that one of the two writes and the other only reads.
void find_updates_left_out(const CompareFacts& facts, StepFindings& findings);

// A state that two optimizers of different styles, none of whose ops is compared with one of the other, leave otherwise.
void find_states_apart(const CompareFacts& facts, StepFindings& findings);

// A backward pass that only one of the two runs has: gradients that are not differentiated again, a forward part without
// gradients. A finding where such a backward joins the rest is about all of it, once.
void find_lost_backward(const CompareFacts& facts, StepFindings& findings);

// Differences that the rounding of a coarse type (bfloat16, float16) would explain, although the two programs ask for
// something else: an op computes in another type, or with another number. Never passed over in silence.
void find_rounding_apart(const CompareFacts& facts, StepFindings& findings);

// Nothing is to blame, although an op's output differs and what it reads agrees: never passed over in silence.
void find_jump(const CompareFacts& facts, StepFindings& findings);

// Adds to findings about gradients why they may differ: a parameter is shared on one side alone, or one side alone does not
// set a gradient to zero.
void explain_gradients(const CompareFacts& facts, StepFindings& findings);

// Statistics do not show the order of elements: for an op with seemingly equal inputs, the op before it that may have put
// them in another order.
void blame_reordering(const CompareFacts& facts, StepFindings& findings);

// Findings that are not certain say where the sources of the two programs differ, by the copies in the dumps. One on the
// only such place is certain.
void settle_by_sources(const CompareFacts& facts, StepFindings& findings);

// Units of a layer in another order: what they give has the same elements, in that order. The op of which that is not
// true any more computes something else. Leaves out the weights that put the units in another order.
void look_at_units_in_another_order(const CompareFacts& facts, StepFindings& findings);

// Differences that are not visible themselves but explain others: a call with another number whose own result is the
// same, before anything differs (`suspect`; null: there is none); and a detach that only one of the two has, where
// gradients differ.
void name_suspects(const CompareFacts& facts, StepFindings& findings, const ComparedOp* suspect);

}  // namespace sonde
