// Calls into Python from any thread that runs an operator.
#pragma once

#include <Python.h>

namespace sonde_torch {

inline bool python_is_alive() {
#if PY_VERSION_HEX < 0x030D0000
  return Py_IsInitialized() != 0 && _Py_IsFinalizing() == 0;
#else
  return Py_IsInitialized() != 0 && Py_IsFinalizing() == 0;
#endif
}

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  // A daemon thread that asks for the GIL while the interpreter ends is unwound from there, without it.
  ~Gil() {
    if (python_is_alive()) PyGILState_Release(state);
  }
};

// Errors in Sonde's own Python code end here. A ^C in that time is raised in the user's code.
inline void drop_error() {
  if (PyErr_Occurred() == nullptr) return;
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) PyErr_SetInterrupt();
  PyErr_Clear();
}

// Preserves an exception of the user's that is in flight.
struct SavedError {
#if PY_VERSION_HEX < 0x030C0000
  PyObject *type, *value, *trace;
  SavedError() { PyErr_Fetch(&type, &value, &trace); }
  void restore() const { PyErr_Restore(type, value, trace); }
#else
  PyObject* error = PyErr_GetRaisedException();
  void restore() const { PyErr_SetRaisedException(error); }
#endif
  ~SavedError() {
    if (!python_is_alive()) return;
    drop_error();
    restore();
  }
};

}  // namespace sonde_torch
