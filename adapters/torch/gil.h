// Calls into Python from any thread that runs an operator.
#pragma once

#include <Python.h>

#include <atomic>

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

// Around a compiled call Dynamo compiles every Python function that is called, ours too: not within this.
struct Untraced {
  PyObject* before = nullptr;
  Untraced() {
    if (function() != nullptr) before = PyObject_CallOneArg(function(), Py_None);
    if (before == nullptr) PyErr_Clear();
  }
  ~Untraced() {
    if (before == nullptr || !python_is_alive()) return;
    PyObject* result = PyObject_CallOneArg(function(), before);
    if (result == nullptr) PyErr_Clear();
    Py_XDECREF(result);
    Py_DECREF(before);
  }
  Untraced(const Untraced&) = delete;
  // torch._C._dynamo.eval_frame.set_eval_frame, or null. Not a static with an initializer: an import may give up the GIL,
  // and another thread would wait for the initializer while it has it.
  static PyObject* function() {
    static std::atomic<PyObject*> found{nullptr};
    if (found.load(std::memory_order_acquire) == nullptr) {
      PyObject* module = PyImport_ImportModule("torch._C._dynamo.eval_frame");
      PyObject* set = module != nullptr ? PyObject_GetAttrString(module, "set_eval_frame") : nullptr;
      PyErr_Clear();
      found.store(set != nullptr ? set : Py_None, std::memory_order_release);
    }
    PyObject* known = found.load(std::memory_order_acquire);
    return known != Py_None ? known : nullptr;
  }
};

}  // namespace sonde_torch
