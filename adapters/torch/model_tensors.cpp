#include "model_tensors.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "setup.h"
#include "tensors.h"

namespace sonde_torch {
namespace {

// A reference of our own: while the models are walked, a collection of garbage may run code that changes them.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {}
  static Owned borrowed(PyObject* object) {
    Py_XINCREF(object);
    return Owned(object);
  }
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

// object.__getattribute__(object, "__dict__")
Owned attributes_of(PyObject* object) {
  Owned found(PyObject_GenericGetDict(object, nullptr));
  if (found.get() == nullptr) PyErr_Clear();
  return found;
}

Owned attribute_of(PyObject* object, const char* name) {
  const Owned attributes = attributes_of(object);
  PyObject* found = attributes.get() != nullptr ? PyDict_GetItemString(attributes.get(), name) : nullptr;
  return Owned::borrowed(found);
}

using Items = std::vector<std::pair<Owned, Owned>>;  // (key, value)

Items items_of(PyObject* mapping) {
  Items items;
  if (mapping == nullptr) return items;
  if (PyDict_CheckExact(mapping)) {
    items.reserve(static_cast<std::size_t>(PyDict_Size(mapping)));
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(mapping, &at, &key, &value) != 0;) {
      items.emplace_back(Owned::borrowed(key), Owned::borrowed(value));
    }
    return items;
  }
  const Owned list(PyMapping_Items(mapping));  // an OrderedDict has an order of its own; TorchScript has another class
  if (list.get() == nullptr) PyErr_Clear();
  for (Py_ssize_t i = 0; list.get() != nullptr && i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(list.get(), i);
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 2) continue;
    items.emplace_back(Owned::borrowed(PyTuple_GET_ITEM(item, 0)), Owned::borrowed(PyTuple_GET_ITEM(item, 1)));
  }
  return items;
}

// `_modules`, `_parameters` or `_buffers`. A module that torch.jit.trace has made keeps another one with them.
Items members_of(PyObject* module, const char* table) {
  const Owned script = attribute_of(module, "_actual_script_module");
  const bool traced = script.get() != nullptr && script.get() != Py_None;
  return items_of(attribute_of(traced ? script.get() : module, table).get());
}

bool is_optimized_module(PyObject* module) {
  const char* name = std::strrchr(Py_TYPE(module)->tp_name, '.');
  if (std::strcmp(name != nullptr ? name + 1 : Py_TYPE(module)->tp_name, "OptimizedModule") != 0) return false;
  const Owned place(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(module)), "__module__"));
  if (place.get() == nullptr) PyErr_Clear();
  return place.get() != nullptr && PyUnicode_Check(place.get()) &&
         PyUnicode_CompareWithASCIIString(place.get(), "torch._dynamo.eval_frame") == 0;
}

// The program's module: torch.compile puts an OptimizedModule around it, which is not a level of any name.
Owned program_module(Owned module) {
  while (is_optimized_module(module.get())) {
    const Owned modules = attribute_of(module.get(), "_modules");
    PyObject* inner = modules.get() != nullptr && PyDict_Check(modules.get())
                          ? PyDict_GetItemString(modules.get(), "_orig_mod")
                          : nullptr;
    if (inner == nullptr) break;
    module = Owned::borrowed(inner);
  }
  return module;
}

// Attribute names may contain any characters; those that a file name cannot contain become `?`.
void append_printable(std::string& out, PyObject* text) {
  const std::size_t before = out.size();
  Py_ssize_t length = 0;
  if (const char* utf8 = PyUnicode_AsUTF8AndSize(text, &length)) {
    out.append(utf8, static_cast<std::size_t>(length));
  } else {  // half a surrogate pair
    PyErr_Clear();
    const Owned replaced(PyUnicode_AsEncodedString(text, "utf-8", "replace"));
    if (replaced.get() == nullptr) return PyErr_Clear();
    out.append(PyBytes_AS_STRING(replaced.get()), static_cast<std::size_t>(PyBytes_GET_SIZE(replaced.get())));
  }
  std::replace(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(), '\0', '?');
}

std::string printable(PyObject* text) {
  std::string out;
  append_printable(out, text);
  return out;
}

struct ModuleLevel {
  Items children;
  std::size_t next = 0;
  std::size_t path = 0;  // the length of the path of these children's parent, with its dot
};

// A level that FullyShardedDataParallel or a checkpoint has put around a module: not in names, as in PyTorch's
// state dicts. python/sonde/modules.py has the same.
bool is_level_of_wrapper(PyObject* name) {
  return PyUnicode_CompareWithASCIIString(name, "_fsdp_wrapped_module") == 0 ||
         PyUnicode_CompareWithASCIIString(name, "_checkpoint_wrapped_module") == 0;
}

void visit_own(PyObject* module, const char* table, std::string& path, const VisitTensor& visit) {
  const std::size_t length = path.size();
  for (const auto& [name, tensor] : members_of(module, table)) {
    if (!PyUnicode_Check(name.get()) || !THPVariable_Check(tensor.get())) continue;
    append_printable(path, name.get());
    visit(path, tensor.get());
    path.resize(length);
  }
}

// The attributes of a wrapper that are tensors, as its class says: `_local_tensor` of a DTensor. Empty: it does not.
std::vector<std::string> wrapped_attributes(PyObject* wrapper) {
  std::vector<std::string> names;
  const Owned answer(PyObject_CallMethod(wrapper, "__tensor_flatten__", nullptr));
  PyObject* list = answer.get() != nullptr && PyTuple_Check(answer.get()) ? PyTuple_GetItem(answer.get(), 0) : nullptr;
  const Owned attributes(list != nullptr ? PySequence_List(list) : nullptr);
  if (attributes.get() == nullptr) PyErr_Clear();
  for (Py_ssize_t i = 0; attributes.get() != nullptr && i < PyList_GET_SIZE(attributes.get()); ++i) {
    names.push_back(printable(PyList_GET_ITEM(attributes.get(), i)));
  }
  return names;
}

// The rank that writes a tensor, as in sonde_tensor; 0: its layout says it, if it has one. Gradients and states are those
// of all ranks only while the optimizer runs.
struct Writer {
  std::uint32_t rank = 0;
  bool is_settled = false;
};

void name_tensor(const std::string& name, const at::TensorBase& tensor, Writer writer);

void name_plain(const std::string& name, const at::TensorBase& tensor, const Layout* layout, Writer writer) {
  TensorDescriptor descriptor;
  descriptor.describe(tensor, false);
  if (layout != nullptr) descriptor.tensor.placement = layout->text.c_str();
  descriptor.tensor.writer = layout != nullptr ? layout->writer : writer.rank;
  if (writer.is_settled) descriptor.tensor.flags |= SONDE_TENSOR_SETTLED;
  api().name_tensor(name.c_str(), descriptor.get());
}

// A DTensor always wraps one tensor, and is not asked for its name in each step. False: it is none.
bool name_local(const std::string& name, const at::TensorBase& tensor, PyObject* wrapper, Writer writer) {
  const LocalPart part = local_part(tensor);
  if (part.tensor == nullptr) return false;
  const Owned local(PyObject_GetAttrString(wrapper, "_local_tensor"));
  if (local.get() == nullptr) PyErr_Clear();
  if (local.get() == nullptr || !THPVariable_Check(local.get())) return false;
  const at::Tensor& own = THPVariable_Unpack(local.get());
  if (!wrapper_class(own).empty()) return false;
  name_plain(name, own, part.layout, writer);
  return true;
}

// The tensors that `tensor` wraps: a single one has its name, of several each has its attribute's too.
void name_wrapped(const std::string& name, const at::TensorBase& tensor, Writer writer) {
  const Owned wrapper(THPVariable_Wrap(tensor));
  if (wrapper.get() == nullptr) return PyErr_Clear();
  if (name_local(name, tensor, wrapper.get(), writer)) return;
  std::vector<std::pair<std::string, Owned>> parts;
  for (const std::string& attribute : wrapped_attributes(wrapper.get())) {
    Owned part(PyObject_GetAttrString(wrapper.get(), attribute.c_str()));
    if (part.get() == nullptr) PyErr_Clear();
    if (part.get() != nullptr && THPVariable_Check(part.get())) parts.emplace_back(attribute, std::move(part));
  }
  for (const auto& [attribute, part] : parts) {
    name_tensor(parts.size() == 1 ? name : name + "." + attribute, THPVariable_Unpack(part.get()), writer);
  }
}

void name_tensor(const std::string& name, const at::TensorBase& tensor, Writer writer) {
  if (!tensor.defined()) return;
  if (!wrapper_class(tensor).empty()) return name_wrapped(name, tensor, writer);
  name_plain(name, tensor, nullptr, writer);
}

// `exp_avg.features.0.weight`, for each tensor in the state of a parameter. By identity: neither hash nor comparison of
// the user's own parameters runs.
void name_state(PyObject* state, const std::string& parameter, Writer writer) {
  for (const auto& [key, value] : items_of(state)) {
    if (!THPVariable_Check(value.get())) continue;
    const Owned text(PyObject_Str(key.get()));
    if (text.get() == nullptr) {
      PyErr_Clear();
      continue;
    }
    name_tensor(printable(text.get()) + "." + parameter, THPVariable_Unpack(value.get()), writer);
  }
}

using Names = std::unordered_map<PyObject*, std::string>;

// The parameters of `models`: [(root, prefix)].
Names names_in(PyObject* models) {
  Names names;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(models); ++i) {
    PyObject *root = nullptr, *text = nullptr;
    if (PyArg_ParseTuple(PyList_GET_ITEM(models, i), "OU", &root, &text) == 0) {
      PyErr_Clear();
      continue;
    }
    const std::string prefix = printable(text);
    for_each_tensor(root, "_parameters",
                    [&](const std::string& name, PyObject* tensor) { names.try_emplace(tensor, prefix + name); });
  }
  return names;
}

// A copy of a sequence as a list, empty if it is none.
Owned list_of(PyObject* sequence) {
  PyObject* list = sequence != nullptr ? PySequence_List(sequence) : nullptr;
  if (list == nullptr) PyErr_Clear();
  return Owned(list != nullptr ? list : PyList_New(0));
}

struct Shared {
  std::uint32_t writer = 0;
  std::uint64_t model = 0;  // of the wrapper that keeps it equal on all ranks
};
using Writers = std::unordered_map<PyObject*, Shared>;

// Of the dictionary {address: writer + 2³² · model}; empty: None.
Writers writers_in(PyObject* table) {
  Writers writers;
  if (!PyDict_Check(table)) return writers;
  PyObject *address = nullptr, *rank = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(table, &at, &address, &rank) != 0;) {
    const std::uint64_t both = PyLong_AsUnsignedLongLong(rank);
    writers[static_cast<PyObject*>(PyLong_AsVoidPtr(address))] = {static_cast<std::uint32_t>(both), both >> 32};
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
  }
  return writers;
}

std::uint32_t writer_of(const Writers& writers, PyObject* parameter) {
  const auto found = writers.find(parameter);
  return found != writers.end() ? found->second.writer : 0;
}

struct Trained {
  Names names;
  Writers writers;
  std::unordered_map<PyObject*, PyObject*> states;  // by parameter
  // Of these models it has states of some parameters alone: another rank may have the others.
  std::unordered_set<std::uint64_t> partly;

  bool is_partly(PyObject* parameter) const {
    const auto found = writers.find(parameter);
    return found != writers.end() && partly.contains(found->second.model);
  }

  void find_partly() {
    for (const auto& [parameter, shared] : writers) {
      const bool trains = THPVariable_Check(parameter) && THPVariable_Unpack(parameter).requires_grad();
      if (trains && !states.contains(parameter)) partly.insert(shared.model);
    }
  }

  // `place`: the name of a parameter that is in no module.
  void name(PyObject* parameter, const std::string& place) {
    if (!THPVariable_Check(parameter)) return;
    const at::Tensor& tensor = THPVariable_Unpack(parameter);
    const auto [known, is_bare] = names.try_emplace(parameter, place);
    const std::uint32_t rank = writer_of(writers, parameter);
    if (is_bare) name_tensor(place, tensor, {});
    // Not Tensor::grad(), which warns of tensors that have none for good.
    if (tensor.defined()) name_tensor(known->second + ".grad", tensor.unsafeGetTensorImpl()->grad(), {rank, true});
    const auto state = states.find(parameter);
    if (state != states.end() && PyDict_Check(state->second))
      name_state(state->second, known->second, {is_partly(parameter) ? 0 : rank, true});
  }
};

}  // namespace

void for_each_tensor(PyObject* root, const char* table, const VisitTensor& visit) {
  std::unordered_set<PyObject*> seen{root};
  std::string path;
  visit_own(root, table, path, visit);
  std::vector<ModuleLevel> levels;
  levels.push_back({members_of(root, "_modules"), 0, 0});
  while (!levels.empty()) {
    ModuleLevel& level = levels.back();
    if (level.next == level.children.size()) {
      levels.pop_back();
      continue;
    }
    const auto& [name, child] = level.children[level.next++];
    if (child.get() == Py_None || !PyUnicode_Check(name.get())) continue;
    const Owned module = program_module(Owned::borrowed(child.get()));
    if (!seen.insert(module.get()).second) continue;
    path.resize(level.path);
    if (!is_level_of_wrapper(name.get())) {
      append_printable(path, name.get());
      path += '.';
    }
    visit_own(module.get(), table, path, visit);
    levels.push_back({members_of(module.get(), "_modules"), 0, path.size()});
  }
}

void name_model(PyObject* root, PyObject* prefix, PyObject* writers) {
  const std::string beginning = printable(prefix);
  const Writers known = writers_in(writers);
  for (const char* table : {"_parameters", "_buffers"}) {
    for_each_tensor(root, table, [&](const std::string& name, PyObject* tensor) {
      name_tensor(beginning + name, THPVariable_Unpack(tensor), {writer_of(known, tensor), false});
    });
  }
}

void name_parameter(PyObject* name, PyObject* tensor) {
  if (THPVariable_Check(tensor)) name_tensor(printable(name), THPVariable_Unpack(tensor), {});
}

void name_optimizer(PyObject* attributes, PyObject* models, PyObject* writers) {
  Trained trained{names_in(models), writers_in(writers), {}, {}};
  const Items states = items_of(PyDict_GetItemString(attributes, "state"));
  for (const auto& [parameter, state] : states) trained.states[parameter.get()] = state.get();
  trained.find_partly();
  const Owned groups = list_of(PyDict_GetItemString(attributes, "param_groups"));
  for (Py_ssize_t g = 0; g < PyList_GET_SIZE(groups.get()); ++g) {
    PyObject* group = PyList_GET_ITEM(groups.get(), g);
    const Owned parameters = list_of(PyDict_Check(group) ? PyDict_GetItemString(group, "params") : nullptr);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parameters.get()); ++i) {
      trained.name(PyList_GET_ITEM(parameters.get(), i), "optimizer." + std::to_string(g) + "." + std::to_string(i));
    }
  }
}

}  // namespace sonde_torch
