#include "gil.h"
#include "program.h"

namespace sonde_torch {

bool raises_in_python() { return python_is_alive() && PyGILState_Check() != 0 && PyErr_Occurred() != nullptr; }

void* release_python() { return python_is_alive() && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr; }

void take_python(void* released) {
  if (released != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(released));
}

}  // namespace sonde_torch
