// A tensor's bytes for Python, read in place: no operator runs, nothing is recorded, and the tensor does not change.
#pragma once

#include <Python.h>

namespace sonde_torch {

// (`float32 (2,3)`, its bytes), or (why it cannot be read, None). The bytes are the tensor's own memory where that is one
// block, with the strides in the description when they are not those of C order, else a copy in C order. They may be
// read only while the tensor is alive and nobody writes it. Null, and an exception set, for what is not a tensor.
PyObject* memory_of(PyObject* tensor);

}  // namespace sonde_torch
