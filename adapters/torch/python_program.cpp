#include <algorithm>
#include <string_view>

#include "gil.h"
#include "program.h"
#include "python_setup.h"
#include "tensors.h"

namespace sonde_torch {
namespace {

using K = c10::DispatchKey;

// Classes whose tensors have no values: a tracer's.
constexpr std::string_view kTracers[] = {"FakeTensor", "FunctionalTensor"};

}  // namespace

std::string_view wrapper_class(const at::TensorBase& t) {
  const c10::DispatchKeySet keys = t.unsafeGetTensorImpl()->key_set();
  if (keys.has(K::FuncTorchBatched) || keys.has(K::Batched)) return "vmap";
  if (keys.has(K::FuncTorchGradWrapper)) return "grad";
  if (keys.has(K::Functionalize)) return "functionalize";
  if (!keys.has(K::Python)) return {};
  PyObject* object = python_object(t);
  if (object == nullptr) return {};
  const std::string_view path = Py_TYPE(object)->tp_name;
  const std::string_view name = path.substr(path.rfind('.') + 1);
  return std::ranges::count(kTracers, name) > 0 ? std::string_view{} : name;
}

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
