// The RecordFunction callbacks: every operator at depth 0 of forward, backward and optimizer, told to the engine.
#pragma once

#include <string>

#include "frames.h"
#include "sonde/sonde.h"

namespace sonde_torch {

// Functions of python/sonde/torch.py, called with the GIL held, once per new thing and not per operator.
struct PythonSide {
  // (tuple of modules, outermost first) -> "network-Net/conv1-Conv2d"
  PyObject* scope_of = nullptr;
  // (module) -> None: a module nobody called is called for the first time
  PyObject* new_root = nullptr;
  // (file name) -> text of a source that is no file, or None
  PyObject* source_of = nullptr;
  // () -> bool: an optimizer trains tensors of no module
  PyObject* bare_training = nullptr;
};

struct Setup {
  const struct sonde_api* api = nullptr;
  FrameFacts frames;
  PythonSide python;
};

void install(const Setup& setup);  // registers both callbacks; the operator one is enabled by the
                                   // clock's answers
void uninstall();
void set_capture();  // after every call of a clock function: switches the operator callback as the clock says
bool capturing();

// A root's forward begins on this thread (from its pre-hook, or when it is first seen). `module` must be the outermost.
// `may_train_without_grad`: it was first seen somewhere inside, where gradients may be off for a while; then it counts
// whether they were on outside.
void root_forward(PyObject* module, bool has_parameters, bool optimizer_alive, bool may_train_without_grad);
// The Optimizer.step that is ending on this thread has returned and not raised.
void step_returned();
// Module objects died or changed: names known by address are stale.
void forget_scopes();

}  // namespace sonde_torch
