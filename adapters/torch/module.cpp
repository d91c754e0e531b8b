// The CPython module `_sonde_torch`, called by python/sonde/torch.py. Its functions only convert arguments.
#include <Python.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <string>
#include <utility>

#include "callers.h"
#include "capture.h"
#include "collectives.h"
#include "compiled.h"
#include "compiled_python.h"
#include "ddp_buckets.h"
#include "first_model.h"
#include "flags.h"
#include "frames.h"
#include "memory.h"
#include "model_tensors.h"
#include "place.h"
#include "python_change.h"
#include "python_setup.h"
#include "tap_memory.h"
#include "tensors.h"
#include "thread_state.h"

namespace {

using sonde_torch::api;
using sonde_torch::apply_change;
using sonde_torch::begin_run_of;
using sonde_torch::define_graph;
using sonde_torch::end_run_of;
using sonde_torch::memory_changed;
using sonde_torch::modules;
using sonde_torch::op_replaced;
using sonde_torch::optimizer_end;
using sonde_torch::records_graph;
using sonde_torch::site;
using sonde_torch::site_wants;
using sonde_torch::tracing;

PyObject* fail(const char* text) {
  PyErr_SetString(PyExc_RuntimeError, text);
  return nullptr;
}

// load(address of the engine's function table, from sonde._core.api()) -> version of the engine
PyObject* load(PyObject*, PyObject* address) {
  const auto* table = static_cast<const struct sonde_api*>(PyLong_AsVoidPtr(address));
  if (table == nullptr) return PyErr_Occurred() != nullptr ? nullptr : fail("the engine's function table is null");
  if (const char* why_not = sonde_torch::set_engine(*table)) return fail(why_not);
  return PyUnicode_FromString(table->engine);
}

// install(module, module_call, optimizer_step, prefixes, scope_of, new_root, source_of, may_read, bare_training,
// parameters_exist, place_in_graph, layout_of)
PyObject* install(PyObject*, PyObject* args) {
  PyObject *module, *module_call, *optimizer_step, *prefixes, *scope_of, *new_root, *source_of, *may_read,
      *bare_training, *parameters_exist, *place_in_graph, *layout_of;
  if (!PyArg_ParseTuple(args, "O!O!O!O!OOOOOOOO", &PyType_Type, &module, &PyCode_Type, &module_call, &PyCode_Type,
                        &optimizer_step, &PyTuple_Type, &prefixes, &scope_of, &new_root, &source_of, &may_read,
                        &bare_training, &parameters_exist, &place_in_graph, &layout_of)) {
    return nullptr;
  }
  if (!sonde_torch::has_engine()) return fail("load() comes first");
  for (PyObject* function : {module, module_call, optimizer_step, scope_of, new_root, source_of, may_read,
                             bare_training, parameters_exist, place_in_graph, layout_of})
    Py_INCREF(function);                // for good, as the setup is kept
  auto* made = new sonde_torch::Setup;  // for good, as the recording that has it
  sonde_torch::Setup& setup = *made;
  setup.frames.module = reinterpret_cast<PyTypeObject*>(module);
  setup.frames.module_call = reinterpret_cast<PyCodeObject*>(module_call);
  setup.frames.optimizer_step = reinterpret_cast<PyCodeObject*>(optimizer_step);
  for (int i = 0; i < 4; ++i) {
    if (i >= PyTuple_GET_SIZE(prefixes)) continue;
    const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(prefixes, i));
    if (text == nullptr) return nullptr;
    setup.frames.skipped_prefixes[i] = text;
  }
  setup.python.scope_of = scope_of;
  setup.python.new_root = new_root;
  setup.python.source_of = source_of;
  setup.python.may_read = may_read;
  setup.python.bare_training = bare_training;
  setup.python.parameters_exist = parameters_exist;
  setup.python.place_in_graph = place_in_graph;
  setup.python.layout_of = layout_of;
  sonde_torch::forget_graphs();
  sonde_torch::install(made);
  Py_RETURN_NONE;
}

// look_for_model(module_call, model_may_run)
PyObject* look_for_model(PyObject*, PyObject* args) {
  PyObject *module_call, *model_may_run;
  if (!PyArg_ParseTuple(args, "O!O", &PyCode_Type, &module_call, &model_may_run)) return nullptr;
  Py_INCREF(module_call);  // both for good, as the search that has them
  Py_INCREF(model_may_run);
  sonde_torch::look_for_model(reinterpret_cast<PyCodeObject*>(module_call), model_may_run);
  Py_RETURN_NONE;
}

PyObject* end_search(PyObject*, PyObject*) {
  sonde_torch::await_model(false);
  Py_RETURN_NONE;
}

PyObject* uninstall(PyObject*, PyObject*) {
  Py_BEGIN_ALLOW_THREADS;  // it may wait until a collective's values are read
  sonde_torch::uninstall();
  sonde_torch::release_tap_memory();
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

// frames() -> [(code, line)] of the calling thread, innermost first: the adapter's own walk, for its self-test
PyObject* frames(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  for (const sonde_torch::CodePlace& place : sonde_torch::all_frames()) {
    PyObject* entry = Py_BuildValue("(Oi)", place.code, PyCode_Addr2Line(place.code, place.instruction));
    if (list == nullptr || entry == nullptr || PyList_Append(list, entry) != 0) Py_CLEAR(list);
    Py_XDECREF(entry);
    if (list == nullptr) break;
  }
  return list;
}

// set_run_info(rank, device, host, command, world_size)
PyObject* set_run_info(PyObject*, PyObject* args) {
  sonde_run_info info{};
  info.size = sizeof info;
  if (!PyArg_ParseTuple(args, "IIssI", &info.rank, &info.device, &info.host, &info.command, &info.world_size))
    return nullptr;
  api().set_run_info(&info);
  Py_RETURN_NONE;
}

// root_forward(module, has_parameters, optimizer_alive, may_train_without_grad, trained, evaluates)
//   -> (operators are being captured, it is a forward with gradients)
PyObject* root_forward(PyObject*, PyObject* args) {
  PyObject* module;
  int has_parameters, optimizer_alive, may_train_without_grad, trained, evaluates;
  if (!PyArg_ParseTuple(args, "Oppppp", &module, &has_parameters, &optimizer_alive, &may_train_without_grad, &trained,
                        &evaluates))
    return nullptr;
  int depth = 0;
  PyObject* outermost = sonde_torch::outermost_module(sonde_torch::setup().frames, depth);
  const bool is_root =
      !sonde_torch::is_inert() && (outermost == module || outermost == nullptr);  // null: a compiled call
  const bool trains =
      is_root && sonde_torch::root_forward(module, {.has_parameters = has_parameters != 0,
                                                    .optimizer_alive = optimizer_alive != 0,
                                                    .may_train_without_grad = may_train_without_grad != 0,
                                                    .trained = trained != 0,
                                                    .evaluates = evaluates != 0});
  return Py_BuildValue("(NN)", PyBool_FromLong(sonde_torch::capturing()), PyBool_FromLong(trains));
}

// modules_exist(with parameters): steps were counted by calls of modules without
PyObject* modules_exist(PyObject*, PyObject* with_parameters) {
  api().modules_exist(with_parameters == Py_True ? 1 : 0);
  sonde_torch::set_capture();
  Py_RETURN_NONE;
}

// model_tensors(root, "_parameters" or "_buffers") -> [(name, tensor)] of a module and all below it
PyObject* model_tensors(PyObject*, PyObject* args) {
  PyObject* root;
  const char* table;
  if (!PyArg_ParseTuple(args, "Os", &root, &table)) return nullptr;
  PyObject* list = PyList_New(0);
  bool complete = list != nullptr;
  sonde_torch::for_each_tensor(root, table, [&](const std::string& name, PyObject* tensor) {
    PyObject* text = PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "replace");
    PyObject* entry = text != nullptr ? PyTuple_Pack(2, text, tensor) : nullptr;
    complete = complete && entry != nullptr && PyList_Append(list, entry) == 0;
    Py_XDECREF(entry);
    Py_XDECREF(text);
  });
  if (complete) return list;
  Py_XDECREF(list);
  return PyErr_NoMemory();
}

PyObject* asks_for_writers(PyObject*, PyObject*) { return PyBool_FromLong(api().asks_for_writers()); }

// name_model(root, prefix, {address of a parameter: writer} or None): parameters and buffers get their names
PyObject* name_model(PyObject*, PyObject* args) {
  PyObject *root, *prefix, *writers;
  if (!PyArg_ParseTuple(args, "OUO", &root, &prefix, &writers)) return nullptr;
  sonde_torch::name_model(root, prefix, writers);
  Py_RETURN_NONE;
}

// name_optimizer(its __dict__, [(root, prefix)], writers as above): gradients and states get theirs
PyObject* name_optimizer(PyObject*, PyObject* args) {
  PyObject *attributes, *models, *writers;
  if (!PyArg_ParseTuple(args, "O!O!O", &PyDict_Type, &attributes, &PyList_Type, &models, &writers)) return nullptr;
  sonde_torch::name_optimizer(attributes, models, writers);
  Py_RETURN_NONE;
}

// name_tensor(name, tensor)
PyObject* name_tensor(PyObject*, PyObject* args) {
  PyObject *name, *tensor;
  if (!PyArg_ParseTuple(args, "UO", &name, &tensor)) return nullptr;
  sonde_torch::name_parameter(name, tensor);
  Py_RETURN_NONE;
}

// memory_written(tensor, others may write to it from now on): its elements changed without an operator
PyObject* memory_written(PyObject*, PyObject* args) {
  PyObject* tensor;
  int given_away;
  if (!PyArg_ParseTuple(args, "Op", &tensor, &given_away)) return nullptr;
  if (!THPVariable_Check(tensor)) Py_RETURN_NONE;
  const at::Tensor& value = THPVariable_Unpack(tensor);
  if (!value.defined()) Py_RETURN_NONE;
  sonde_torch::TensorDescriptor descriptor;
  descriptor.describe(value, false);
  if (descriptor.storage == nullptr) Py_RETURN_NONE;
  if (given_away != 0) sonde_torch::give_away(descriptor.storage);
  api().storage_changed((descriptor.tensor.flags & SONDE_TENSOR_FOREIGN) != 0 ? 0 : descriptor.tensor.storage);
  Py_RETURN_NONE;
}

// storage_resized(storage, its bytes before): it may have grown, without an operator
PyObject* storage_resized(PyObject*, PyObject* args) {
  PyObject* object;
  unsigned long long before;
  if (!PyArg_ParseTuple(args, "OK", &object, &before)) return nullptr;
  // Writes are not seen otherwise.
  if (!sonde_torch::capturing() || !torch::isStorage(object)) Py_RETURN_NONE;
  const at::Storage storage = torch::createStorage(object);
  sonde_torch::TensorDescriptor block;
  block.describe_block(*storage.unsafeGetStorageImpl());
  if (block.tensor.storage_bytes > before) api().storage_allocated(block.get(), before);
  Py_RETURN_NONE;
}

// step_requests([(request, first row, rows, position of the first row)]): of the step that begins next
PyObject* step_requests(PyObject*, PyObject* list) {
  if (!PyList_Check(list)) return fail("step_requests wants a list");
  std::vector<sonde_request> requests;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    const char* id;
    unsigned long long row, rows, position;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "sKKK", &id, &row, &rows, &position)) return nullptr;
    requests.push_back({id, row, rows, position});
  }
  api().step_requests(requests.data(), static_cast<std::uint32_t>(requests.size()));
  Py_RETURN_NONE;
}

// step_over(): the step of an engine is over
PyObject* step_over(PyObject*, PyObject*) {
  api().step_over();
  sonde_torch::set_capture();
  Py_RETURN_NONE;
}

// trial(+1 or -1): PyTorch begins or ends to run the program's code for the shapes of its results
PyObject* trial(PyObject*, PyObject* change) { return apply_change(change, sonde_torch::change_trials); }

// leave_out(+1 or -1): a run of the program that is not to be recorded begins or ends
PyObject* leave_out(PyObject*, PyObject* change) { return apply_change(change, sonde_torch::change_left_out); }

// memory_of(tensor) -> (description, bytes) or (the reason why it cannot be read, None)
PyObject* memory_of(PyObject*, PyObject* tensor) { return sonde_torch::memory_of(tensor); }

PyObject* forget_dead_storages(PyObject*, PyObject*) {
  sonde_torch::forget_dead_storages();
  Py_RETURN_NONE;
}

// set_flags({address of a module or code object: flagged})
PyObject* set_flags(PyObject*, PyObject* targets) {
  if (!PyDict_Check(targets)) return fail("set_flags wants a dictionary");
  sonde_torch::Flags flags;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(targets, &at, &key, &value) != 0;) {
    const void* address = PyLong_AsVoidPtr(key);
    if (address == nullptr && PyErr_Occurred() != nullptr) return nullptr;
    flags[address] = value == Py_True;
  }
  sonde_torch::set_flags(std::move(flags));
  Py_RETURN_NONE;
}

// flag_type(operator type, enabled)
PyObject* flag_type(PyObject*, PyObject* args) {
  const char* type;
  int enabled;
  if (!PyArg_ParseTuple(args, "sp", &type, &enabled)) return nullptr;
  api().flag_type(type, enabled);
  Py_RETURN_NONE;
}

// dump_scope(+1 or -1): a scope opens or closes on this thread
PyObject* dump_scope(PyObject*, PyObject* change) {
  return apply_change(change, [](int by) {
    int& scopes = sonde_torch::thread_state().dump_scopes;
    scopes = std::max(0, scopes + by);
  });
}

// dump_switch(on)
PyObject* dump_switch(PyObject*, PyObject* on) {
  api().set_recording(on == Py_True ? 1 : 0);
  sonde_torch::set_capture();
  Py_RETURN_NONE;
}

// set_step(number of the step that begins next)
PyObject* set_step(PyObject*, PyObject* step) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(step);
  if (PyErr_Occurred() != nullptr) return nullptr;
  api().set_step(number);
  sonde_torch::set_capture();
  Py_RETURN_NONE;
}

PyObject* step(PyObject*, PyObject*) {
  api().manual_step();
  sonde_torch::set_capture();
  Py_RETURN_NONE;
}

PyObject* scaler_update(PyObject*, PyObject*) {
  api().scaler_update();
  sonde_torch::set_capture();
  Py_RETURN_NONE;
}

PyObject* work_waited(PyObject*, PyObject* work) {
  // pybind11 keeps the object's address in the first word behind the header; it is only used for comparison.
  sonde_torch::work_waited(*reinterpret_cast<void**>(reinterpret_cast<char*>(work) + sizeof(PyObject)));
  Py_RETURN_NONE;
}

// caller(text) -> the text before: who calls the collectives of this thread from now on; empty: the program
PyObject* caller(PyObject*, PyObject* text) {
  Py_ssize_t length = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes == nullptr) return nullptr;
  const std::string before = sonde_torch::set_caller(std::string(bytes, static_cast<std::size_t>(length)));
  return PyUnicode_DecodeUTF8(before.data(), static_cast<Py_ssize_t>(before.size()), "replace");
}

// memory_of_caller(tensor, text): who calls the collectives on its memory
PyObject* memory_of_caller(PyObject*, PyObject* args) {
  PyObject* tensor;
  const char* text;
  if (!PyArg_ParseTuple(args, "Os", &tensor, &text)) return nullptr;
  if (THPVariable_Check(tensor)) sonde_torch::name_memory_of_caller(THPVariable_Unpack(tensor), text);
  Py_RETURN_NONE;
}

// ddp_buckets(torch.distributed.Reducer) -> [(memory, [parameters])]
PyObject* ddp_buckets(PyObject*, PyObject* reducer) { return sonde_torch::buckets_of(reducer); }

PyObject* capturing(PyObject*, PyObject*) { return PyBool_FromLong(sonde_torch::capturing()); }

PyObject* step_returned(PyObject*, PyObject*) {
  sonde_torch::step_returned();
  Py_RETURN_NONE;
}

PyObject* forget_scopes(PyObject*, PyObject*) {
  sonde_torch::forget_scopes();
  Py_RETURN_NONE;
}

// take_failure() -> text or None
PyObject* take_failure(PyObject*, PyObject*) {
  char text[2048];
  if (api().take_failure(text, sizeof text) == 0) Py_RETURN_NONE;
  return PyUnicode_FromString(text);
}

PyMethodDef kMethods[] = {
    {"load", load, METH_O, nullptr},
    {"install", install, METH_VARARGS, nullptr},
    {"look_for_model", look_for_model, METH_VARARGS, nullptr},
    {"end_search", end_search, METH_NOARGS, nullptr},
    {"uninstall", uninstall, METH_NOARGS, nullptr},
    {"frames", frames, METH_NOARGS, nullptr},
    {"set_run_info", set_run_info, METH_VARARGS, nullptr},
    {"root_forward", root_forward, METH_VARARGS, nullptr},
    {"modules_exist", modules_exist, METH_O, nullptr},
    {"model_tensors", model_tensors, METH_VARARGS, nullptr},
    {"asks_for_writers", asks_for_writers, METH_NOARGS, nullptr},
    {"name_model", name_model, METH_VARARGS, nullptr},
    {"name_tensor", name_tensor, METH_VARARGS, nullptr},
    {"name_optimizer", name_optimizer, METH_VARARGS, nullptr},
    {"memory_written", memory_written, METH_VARARGS, nullptr},
    {"storage_resized", storage_resized, METH_VARARGS, nullptr},
    {"trial", trial, METH_O, nullptr},
    {"leave_out", leave_out, METH_O, nullptr},
    {"step_over", step_over, METH_NOARGS, nullptr},
    {"step_requests", step_requests, METH_O, nullptr},
    {"memory_of", memory_of, METH_O, nullptr},
    {"forget_dead_storages", forget_dead_storages, METH_NOARGS, nullptr},
    {"set_flags", set_flags, METH_O, nullptr},
    {"flag_type", flag_type, METH_VARARGS, nullptr},
    {"dump_scope", dump_scope, METH_O, nullptr},
    {"dump_switch", dump_switch, METH_O, nullptr},
    {"set_step", set_step, METH_O, nullptr},
    {"step", step, METH_NOARGS, nullptr},
    {"scaler_update", scaler_update, METH_NOARGS, nullptr},
    {"work_waited", work_waited, METH_O, nullptr},
    {"caller", caller, METH_O, nullptr},
    {"memory_of_caller", memory_of_caller, METH_VARARGS, nullptr},
    {"ddp_buckets", ddp_buckets, METH_O, nullptr},
    {"capturing", capturing, METH_NOARGS, nullptr},
    {"step_returned", step_returned, METH_NOARGS, nullptr},
    {"forget_scopes", forget_scopes, METH_NOARGS, nullptr},
    {"take_failure", take_failure, METH_NOARGS, nullptr},
    {"modules", modules, METH_NOARGS, nullptr},
    {"tracing", tracing, METH_O, nullptr},
    {"records_graph", records_graph, METH_VARARGS, nullptr},
    {"site", site, METH_VARARGS, nullptr},
    {"site_wants", site_wants, METH_VARARGS, nullptr},
    {"op_replaced", op_replaced, METH_VARARGS, nullptr},
    {"define_graph", define_graph, METH_VARARGS, nullptr},
    {"begin_run", begin_run_of, METH_VARARGS, nullptr},
    {"end_run", end_run_of, METH_O, nullptr},
    {"memory_changed", memory_changed, METH_NOARGS, nullptr},
    {"optimizer_end", optimizer_end, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef kModule = {
    PyModuleDef_HEAD_INIT, "_sonde_torch", nullptr, -1, kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__sonde_torch() { return PyModule_Create(&kModule); }
