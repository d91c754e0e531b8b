// The RecordFunction callbacks: every operator at depth 0 of forward, backward and optimizer, reported to the engine.
#pragma once

#include "setup.h"

namespace sonde_torch {

// Registers both callbacks; the operator one is enabled by the clock's answers. `setup` is kept for good.
void install(const Setup* setup);
void uninstall();
// This process may never run a model, as a worker or a forked child. It looks at operators until first_model_runs().
void await_model(bool awaits);
void set_capture();  // after every call of a clock function: enables or disables the operator callback
bool capturing();
bool is_traced();  // a tracer runs the program on tensors without values: Dynamo, AOTAutograd, torch.export
// Forgets facts about memory that is no longer reachable, here and in the engine.
void forget_dead_storages();

// A root's forward begins on this thread (from its pre-hook, or when it is first seen). `module`: its address, for a
// module that no other has called.
// `may_train_without_grad`: it was first seen somewhere inside, where gradients may be off for a while; then the
// gradient mode outside of it counts.
struct RootForward {
  bool has_parameters = false, optimizer_alive = false;
  bool may_train_without_grad = false;     // gradients may have been on when it began
  bool trained = true, evaluates = false;  // as in sonde_quiet_forward
};
// True for a forward with gradients.
bool root_forward(const void* module, const RootForward& forward);
// The Optimizer.step that is ending on this thread returned without an exception.
void step_returned();

}  // namespace sonde_torch
