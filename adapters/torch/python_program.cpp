#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "gil.h"
#include "program.h"
#include "python_setup.h"
#include "tensors.h"
#include "thread_state.h"

namespace sonde_torch {
namespace {

using K = c10::DispatchKey;

// Classes whose tensors have no values: a tracer's.
constexpr std::string_view kTracers[] = {"FakeTensor", "FunctionalTensor"};

// With the GIL, by the `_spec` that tensors share; each key is a reference, so that no other object gets its address.
using Layouts = std::unordered_map<PyObject*, std::string>;
auto* g_layouts = new Layouts;  // leaked: threads of the program may outlive static destruction

const std::string& layout_of_spec(PyObject* spec) {
  constexpr std::size_t kMost = 4096;
  if (const auto known = g_layouts->find(spec); known != g_layouts->end()) return known->second;
  std::string text;
  bool& busy = thread_state().busy;  // PyTorch's functions about placements call operators, which are not the program's
  const bool was_busy = std::exchange(busy, true);
  if (PyObject* answer = PyObject_CallOneArg(setup().python.layout_of, spec)) {
    if (const char* utf8 = PyUnicode_AsUTF8(answer)) text = utf8;
    Py_DECREF(answer);
  }
  drop_error();
  busy = was_busy;
  if (g_layouts->size() == kMost) {
    Layouts old;
    old.swap(*g_layouts);
    for (const auto& [key, layout] : old) Py_DECREF(key);
  }
  return g_layouts->try_emplace(Py_NewRef(spec), std::move(text)).first->second;
}

}  // namespace

std::string layout_of(const at::TensorBase& t) {
  if (wrapper_class(t) != "DTensor" || !python_is_alive()) return {};
  const Gil gil;
  const SavedError saved;
  const Untraced here;
  PyObject* spec = PyObject_GetAttrString(python_object(t), "_spec");
  if (spec == nullptr) return {};
  std::string text = layout_of_spec(spec);
  Py_DECREF(spec);
  return text;
}

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
