// Operators of torch.distributed return before they are complete. Their results are reported when their work is
// complete: on the thread that completes it, before an operator that waited for it reads or writes them.
#pragma once

#include <vector>

#include "ATen/core/ivalue.h"
#include "sonde/sonde.h"
#include "tensors.h"

namespace sonde_torch {

// True on gloo's own threads, outside of any Python code: operators there are part of a collective.
bool inside_collective_thread();

// Takes over `op`, which has returned `results` with a work among them. `outputs` are reported and the op is ended
// later; the work owns their memory, not this table. If completion cannot be observed, this happens at once and without
// values.
void complete_later(const struct sonde_api& api, sonde_op* op, std::vector<TensorDescriptor> outputs,
                    const std::vector<c10::IValue>& results);

// The same of a functional collective, whose outputs are complete when somebody has waited for them.
void complete_when_waited(const struct sonde_api& api, sonde_op* op, std::vector<TensorDescriptor> outputs);

// An argument that is read after its op has returned.
struct LateInput {
  std::uint32_t slot = 0;
  TensorDescriptor descriptor;
};
// The same of a view of what a functional collective has not written yet: `inputs` and `outputs` are complete with it.
void complete_with_collective(const struct sonde_api& api, sonde_op* op, std::vector<LateInput> inputs,
                              std::vector<TensorDescriptor> outputs);

// `wait_tensor` of this tensor returns. False: no recorded collective has written it.
bool tensor_waited(const sonde_tensor& tensor);

// An operator is about to use `tensor`. Waits while its values are still being read after a complete collective; if the
// collective is not complete, marks it as memory that may change without an operator, or that nobody may read yet.
void meet_collectives(sonde_tensor& tensor);
// The last has marked it: nobody may read it yet.
bool is_unfinished(const sonde_tensor& tensor);

// Work.wait() of the work at this address has returned: the waiting thread completes some works, without another signal.
void work_waited(const void* address);

// Between steps: forgets works that nobody can wait for any more.
void purge_collectives();
// The session ends: reports complete results, and the others as missing.
void end_collectives();
// In the child of fork(): the threads that completed the works stayed in the parent.
void forget_collectives();

}  // namespace sonde_torch
