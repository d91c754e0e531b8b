// Operators of torch.distributed return before they are done. Their results are reported when their work is complete:
// on the thread that completes it, before it is read or written by an operator that waited for it.
#pragma once

#include <Python.h>

#include <vector>

#include "ATen/core/ivalue.h"
#include "sonde/sonde.h"
#include "tensors.h"

namespace sonde_torch {

// A thread of gloo's own, outside of any Python code: operators there are part of a collective.
bool inside_collective_thread();

// Takes over `op`, which has returned `results`, a work among them. `outputs` are reported and the op is ended later;
// the work owns their memory, not this table. Where completion cannot be observed, this happens at once and without
// values.
void complete_later(const struct sonde_api& api, sonde_op* op, std::vector<TensorDescriptor> outputs,
                    const std::vector<c10::IValue>& results);

// An operator is about to use `tensor`. Waits while it is still being read for a collective that is complete; marks it
// as memory that may change unseen where the collective is not.
void meet_collectives(sonde_tensor& tensor);

// Work.wait() of Python has returned: some works are done by the waiting thread, without another signal.
void work_waited(PyObject* work);

// Between steps: works that nobody can wait for any more are forgotten.
void purge_collectives();
// The session ends: complete results are reported, the others are reported as missing.
void end_collectives();
// In the child of fork(): the threads that completed the works stayed in the parent.
void forget_collectives();

}  // namespace sonde_torch
