// The tensors of one op: its arguments, from the boxed stack of the host, and its results, reported to the engine.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <vector>

#include "ops.h"
#include "sonde/sonde.h"
#include "thread_state.h"

namespace sonde_torch {

c10::ArrayRef<const c10::IValue> arguments_of(const at::RecordFunction& fn);
c10::ArrayRef<const c10::IValue> results_of(const at::RecordFunction& fn);

// Describes the tensors among `values` on top of the thread's inputs; drop_inputs() removes those of `frame`.
void collect_inputs(ThreadState& state, const OpInfo& info, c10::ArrayRef<const c10::IValue> values);
std::vector<TensorDescriptor> described_tensors(c10::ArrayRef<const c10::IValue> values);
// Something that is not an operator (a custom autograd.Function, a node of backward) has thrown: records its inputs.
void report_failure(ThreadState& state, std::uint32_t site, sonde_graph graph, std::vector<TensorDescriptor>& inputs);
void drop_inputs(ThreadState& state, const Frame& frame);
bool any_requires_grad(const ThreadState& state, const Frame& frame);

// An op that is not recorded, or that runs inside `op`, writes: the known facts about that memory are no longer true.
void report_unrecorded_writes(ThreadState& state, const at::RecordFunction& fn, const OpInfo& info, sonde_op* op);

// Reads the arguments that have other values after the op, or none: those that it writes, all tensors that share their
// memory, and numbers.
void report_before(ThreadState& state, const Frame& frame);
// After the kernel: reports the written memory, the other arguments and the results; then ends the op.
void end_op(ThreadState& state, Frame& frame, const at::RecordFunction& fn);

// An op that is not recorded has returned memory that nobody has written.
void report_allocated(ThreadState& state, const at::RecordFunction& fn);

// Backward reads tensors that autograd saves inside an op (a mask, a mean): they come from the op at depth 0.
void report_inner_results(ThreadState& state, const Frame& frame, const at::RecordFunction& fn);

}  // namespace sonde_torch
