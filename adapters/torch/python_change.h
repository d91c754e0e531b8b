// A change by +1 or -1 that Python passes.
#pragma once

#include <Python.h>

namespace sonde_torch {

// Calls `apply` with the change. Returns None, or null with Python's error for anything but an integer.
template <typename Apply>
PyObject* apply_change(PyObject* change, Apply apply) {
  const long by = PyLong_AsLong(change);
  if (by == -1 && PyErr_Occurred() != nullptr) return nullptr;
  apply(static_cast<int>(by));
  Py_RETURN_NONE;
}

}  // namespace sonde_torch
