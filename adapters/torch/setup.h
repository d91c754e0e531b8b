// What python/sonde/torch.py told about this process, for as long as the process lives.
#pragma once

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
  // () -> bool: a module with parameters exists
  PyObject* parameters_exist = nullptr;
};

struct Setup {
  const struct sonde_api* api = nullptr;
  FrameFacts frames;
  PythonSide python;
};

// Of the session that began last; one must have begun.
const Setup& setup();
inline const struct sonde_api& api() { return *setup().api; }

}  // namespace sonde_torch
