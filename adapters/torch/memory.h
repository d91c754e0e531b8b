// A tensor's bytes for Python, read in place: nothing is recorded, and the tensor does not change.
#pragma once

#include <Python.h>

namespace sonde_torch {

// (`float32 (2,3)`, its bytes), or (the reason why it cannot be read, None). If the tensor's memory is one block, the
// bytes are that memory, and the description contains strides that differ from C order; otherwise they are a copy in C
// order. They may be read only while the tensor is alive and nobody writes it. Null, with an exception set, if it is
// not a tensor.
PyObject* memory_of(PyObject* tensor);

}  // namespace sonde_torch
