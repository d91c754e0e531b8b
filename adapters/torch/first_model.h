// A process that may never run a model, such as a worker that loads data: looks for its first one.
#pragma once

#include <Python.h>

namespace sonde_torch {

// `module_call`: the code of nn.Module._wrapped_call_impl. `model_may_run`, with the GIL: (outermost module or None, an
// operator computes with gradients or an optimizer works) -> None; it may begin a session, or end the search.
void look_for_model(PyCodeObject* module_call, PyObject* model_may_run);

}  // namespace sonde_torch
