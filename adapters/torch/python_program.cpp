#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gil.h"
#include "hash.h"
#include "program.h"
#include "python_setup.h"
#include "tensors.h"
#include "thread_state.h"

namespace sonde_torch {
namespace {

using K = c10::DispatchKey;

// Classes whose tensors have no values: a tracer's.
constexpr std::string_view kTracers[] = {"FakeTensor", "FunctionalTensor"};

// The facts that the text of a layout depends on. Each object is a reference, so that no other gets its address.
struct LayoutKey {
  PyObject* mesh = nullptr;
  PyObject* placements = nullptr;
  std::vector<std::int64_t> shape;
};

// With the GIL. Tensors share their `_spec`, as a rule; most steps make some anew, which say the same.
struct KnownLayouts {
  std::unordered_map<PyObject*, const Layout*> by_spec;
  std::unordered_map<std::uint64_t, std::pair<LayoutKey, const Layout*>> by_content;
  std::unordered_map<std::string, std::unique_ptr<const Layout>> by_text;  // are kept: others have their addresses
};
auto* g_layouts = new KnownLayouts;  // leaked: threads of the program may outlive static destruction

// Meshes of other ranks have the same text.
const Layout* layout_of_text(std::string text, std::uint32_t writer) {
  if (text.empty()) return nullptr;
  std::unique_ptr<const Layout>& layout = g_layouts->by_text[text + '\n' + std::to_string(writer)];
  if (layout == nullptr) {
    const std::uint64_t key = hash_of(text) | 1;
    layout = std::make_unique<const Layout>(Layout{std::move(text), key, writer});
  }
  return layout.get();
}

const Layout* described(PyObject* spec) {
  std::string text;
  std::uint32_t writer = 0;
  bool& busy = thread_state().busy;  // PyTorch's functions about placements call operators, which are not the program's
  const bool was_busy = std::exchange(busy, true);
  if (PyObject* answer = PyObject_CallOneArg(setup().python.layout_of, spec)) {
    const char* utf8 = nullptr;
    if (PyArg_ParseTuple(answer, "sI", &utf8, &writer) != 0) text = utf8;
    Py_DECREF(answer);
  }
  drop_error();
  busy = was_busy;
  return layout_of_text(std::move(text), writer);
}

// The objects of a table are released when it is out of the way: their code may ask for a layout.
void make_room() {
  constexpr std::size_t kMost = 1024;
  if (g_layouts->by_spec.size() >= kMost) {
    const auto old = std::exchange(g_layouts->by_spec, {});
    for (const auto& [spec, layout] : old) Py_DECREF(spec);
  }
  if (g_layouts->by_content.size() >= kMost) {
    const auto old = std::exchange(g_layouts->by_content, {});
    for (const auto& [hash, known] : old) {
      Py_DECREF(known.first.mesh);
      Py_DECREF(known.first.placements);
    }
  }
}

bool is_same(const LayoutKey& key, PyObject* mesh, PyObject* placements, c10::IntArrayRef shape) {
  if (key.mesh != mesh || !shape.equals(key.shape)) return false;
  const int answer = PyObject_RichCompareBool(key.placements, placements, Py_EQ);
  if (answer == -1) PyErr_Clear();
  return answer == 1;
}

const Layout* layout_by_content(PyObject* spec, PyObject* mesh, PyObject* placements, c10::IntArrayRef shape) {
  const Py_hash_t of_placements = PyObject_Hash(placements);
  if (of_placements == -1) PyErr_Clear();
  std::uint64_t hash = mix(reinterpret_cast<std::uint64_t>(mesh), static_cast<std::uint64_t>(of_placements));
  for (const std::int64_t size : shape) hash = mix(hash, static_cast<std::uint64_t>(size));
  const auto known = g_layouts->by_content.find(hash);
  if (known != g_layouts->by_content.end() && is_same(known->second.first, mesh, placements, shape)) {
    return known->second.second;
  }
  const Layout* layout = described(spec);
  make_room();
  const auto [place, is_new] = g_layouts->by_content.try_emplace(hash);
  if (is_new) place->second = {{Py_NewRef(mesh), Py_NewRef(placements), shape.vec()}, layout};
  return layout;
}

const Layout* layout_of_spec(PyObject* spec, c10::IntArrayRef shape) {
  const Untraced here;
  PyObject* mesh = PyObject_GetAttrString(spec, "mesh");
  PyObject* placements = mesh != nullptr ? PyObject_GetAttrString(spec, "placements") : nullptr;
  const Layout* layout = placements != nullptr ? layout_by_content(spec, mesh, placements, shape) : nullptr;
  Py_XDECREF(placements);
  Py_XDECREF(mesh);
  drop_error();
  make_room();
  if (g_layouts->by_spec.try_emplace(spec, layout).second) Py_INCREF(spec);
  return layout;
}

}  // namespace

LocalPart local_part(const at::TensorBase& t) {
  if (wrapper_class(t) != "DTensor" || !python_is_alive()) return {};
  const Gil gil;
  const SavedError saved;
  // Slots of the class: no code of Python runs.
  static PyObject* const spec_name = PyUnicode_InternFromString("_spec");
  static PyObject* const local_name = PyUnicode_InternFromString("_local_tensor");
  LocalPart part;
  if (PyObject* local = PyObject_GetAttr(python_object(t), local_name)) {
    if (THPVariable_Check(local)) part.tensor = THPVariable_Unpack(local).unsafeGetTensorImpl();
    Py_DECREF(local);
  }
  drop_error();
  if (PyObject* spec = PyObject_GetAttr(python_object(t), spec_name)) {
    const auto known = g_layouts->by_spec.find(spec);
    part.layout = known != g_layouts->by_spec.end() ? known->second : layout_of_spec(spec, t.sizes());
    Py_DECREF(spec);
  }
  return part;
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
