#include "gil.h"
#include "program.h"
#include "python_setup.h"

namespace sonde_torch {

bool raises_in_python() { return python_is_alive() && PyGILState_Check() != 0 && PyErr_Occurred() != nullptr; }

bool may_read_source(const std::string& file) {
  if (!python_is_alive()) return false;
  const Gil gil;
  const SavedError saved;
  const Untraced here;
  PyObject* answer = PyObject_CallFunction(setup().python.may_read, "s", file.c_str());
  if (answer == nullptr) drop_error();
  Py_XDECREF(answer);
  return answer == Py_True;
}

void* release_python() { return python_is_alive() && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr; }

void take_python(void* released) {
  if (released != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(released));
}

}  // namespace sonde_torch
