// The facts about a program in Python, from python/sonde/torch.py, when a session began.
#pragma once

#include "frames.h"
#include "setup.h"

namespace sonde_torch {

// Functions of python/sonde/torch.py, called with the GIL, once per new thing and not per operator.
struct PythonSide {
  // (tuple of modules, outermost first) -> "network-Net/conv1-Conv2d"
  PyObject* scope_of = nullptr;
  // (module) -> None: a module that no other module called is called for the first time
  PyObject* new_root = nullptr;
  // (file name) -> text of a source without a file, or None
  PyObject* source_of = nullptr;
  // (file name that data contain) -> bool: its text may go into the dump
  PyObject* may_read = nullptr;
  // () -> bool: an optimizer trains tensors of no module
  PyObject* bare_training = nullptr;
  // () -> bool: a module with parameters exists
  PyObject* parameters_exist = nullptr;
  // (module, line in the code of its graph) -> (scope, [(file, line, function, text)], of an optimizer) or None
  PyObject* place_in_graph = nullptr;
  // (_spec of a DTensor) -> ("Shard(0) of (16, 8) on tp=2, from (8, 0)", sonde_tensor.writer)
  PyObject* layout_of = nullptr;
};

struct Setup {
  FrameFacts frames;
  PythonSide python;
};

inline const Setup& setup() { return *recording()->setup; }

}  // namespace sonde_torch
