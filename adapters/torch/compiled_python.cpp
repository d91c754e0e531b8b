#include "compiled_python.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "capture.h"
#include "compiled.h"
#include "data_sources.h"
#include "frames.h"
#include "gil.h"
#include "python_change.h"
#include "python_setup.h"
#include "sites.h"
#include "thread_state.h"

namespace sonde_torch {
namespace {

template <typename F>
bool for_each(PyObject* sequence, F body) {
  PyObject* items = PySequence_Fast(sequence, "a sequence is expected");
  if (items == nullptr) return false;
  bool ok = true;
  for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(items); ++i) ok = body(PySequence_Fast_GET_ITEM(items, i));
  Py_DECREF(items);
  return ok;
}

bool read_integers(PyObject* list, std::vector<std::int64_t>& out) {
  return for_each(list, [&](PyObject* item) {
    out.push_back(PyLong_AsLongLong(item));
    return PyErr_Occurred() == nullptr;
  });
}

bool read_reals(PyObject* list, std::vector<double>& out) {
  return for_each(list, [&](PyObject* item) {
    out.push_back(PyFloat_AsDouble(item));
    return PyErr_Occurred() == nullptr;
  });
}

// (name, kind, integers, reals, text)
bool read_attribute(PyObject* item, CompiledNode& node) {
  NodeAttribute attribute;
  const char *name, *text;
  PyObject *integers, *reals;
  if (!PyArg_ParseTuple(item, "sIOOs", &name, &attribute.kind, &integers, &reals, &text)) return false;
  attribute.name = name;
  attribute.text = text;
  if (!read_integers(integers, attribute.integers) || !read_reals(reals, attribute.reals)) return false;
  add_attribute(node, std::move(attribute));
  return true;
}

// (site, type, view, tapped, [(slot, maker, output)], [(given, dtype, shape)], [attribute])
bool read_node(PyObject* item, CompiledGraph& graph) {
  CompiledNode node;
  int view, tapped;
  const char* type;
  PyObject *inputs, *outputs, *attributes;
  if (!PyArg_ParseTuple(item, "IsppOOO", &node.site, &type, &view, &tapped, &inputs, &outputs, &attributes))
    return false;
  node.is_view = view != 0;
  node.tapped = tapped != 0;
  const bool inputs_read = for_each(inputs, [&](PyObject* tuple) {
    NodeInput input;
    long long maker;
    if (!PyArg_ParseTuple(tuple, "ILI", &input.slot, &maker, &input.output)) return false;
    input.maker = maker;
    node.inputs.push_back(input);
    return true;
  });
  const bool outputs_read = inputs_read && for_each(outputs, [&](PyObject* tuple) {
                              NodeOutput output;
                              int given;
                              unsigned dtype;
                              PyObject* shape;
                              if (!PyArg_ParseTuple(tuple, "pIO", &given, &dtype, &shape)) return false;
                              output.given = given != 0;
                              output.dtype = static_cast<sonde_dtype>(dtype);
                              if (!read_integers(shape, output.shape)) return false;
                              node.outputs.push_back(std::move(output));
                              return true;
                            });
  if (!outputs_read) return false;
  if (!for_each(attributes, [&](PyObject* tuple) { return read_attribute(tuple, node); })) return false;
  if (add_node(graph, type, std::move(node))) return true;
  PyErr_SetString(PyExc_ValueError, "a node reads only results of earlier nodes");
  return false;
}

// The sonde_graph of a compiled graph that runs now. `grad`: the program has gradients on; PyTorch turns them off for it.
sonde_graph graph_of_run(const ThreadState& state, bool backward, bool grad) {
  if (backward) return SONDE_GRAPH_TRAINING;
  int depth = 0;
  PyObject* root = outermost_module(setup().frames, depth);
  if (root != nullptr && root == state.current_root) {
    return state.current_root_trains ? SONDE_GRAPH_TRAINING : SONDE_GRAPH_EVALUATION;
  }
  return grad ? SONDE_GRAPH_OUTSIDE_GRAD : SONDE_GRAPH_OUTSIDE_NO_GRAD;
}

// The answer of resolve(text) of Python; 0 for anything but a number.
std::int64_t resolved(PyObject* resolve, std::string_view text) {
  if (!python_is_alive()) return 0;
  const Gil gil;
  const SavedError saved;
  std::int64_t number = 0;
  PyObject* table = PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  PyObject* result = table != nullptr ? PyObject_CallOneArg(resolve, table) : nullptr;
  Py_XDECREF(table);
  if (result != nullptr && PyLong_Check(result)) number = PyLong_AsLongLong(result);
  Py_XDECREF(result);
  drop_error();
  return number;
}

}  // namespace

// modules() -> the modules being called on this thread, outermost first
PyObject* modules(PyObject*, PyObject*) {
  const std::vector<PyObject*> found = modules_on_stack(setup().frames);
  PyObject* result = PyTuple_New(static_cast<Py_ssize_t>(found.size()));
  for (std::size_t i = 0; result != nullptr && i < found.size(); ++i) {
    PyObject* module = found[found.size() - 1 - i];
    Py_INCREF(module);
    PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(i), module);
  }
  return result;
}

// tracing(+1 or -1): a compiler begins or ends on this thread
PyObject* tracing(PyObject*, PyObject* change) {
  return apply_change(change, [](int by) {
    int& depth = thread_state().tracing;
    depth = std::max(0, depth + by);
  });
}

// records_graph(backward, grad) -> whether operators of a compiled graph that runs here and now are recorded
PyObject* records_graph(PyObject*, PyObject* args) {
  int backward, grad;
  if (!PyArg_ParseTuple(args, "pp", &backward, &grad)) return nullptr;
  if (recording() == nullptr || is_inert() || !capturing()) Py_RETURN_FALSE;
  const bool records = api().records_graph(graph_of_run(thread_state(), backward != 0, grad != 0)) != 0;
  set_capture();
  return PyBool_FromLong(records);
}

// site(type, scope, phase, forward site, flagged, [(file, line, function)]) -> number
PyObject* site(PyObject*, PyObject* args) {
  const char *type, *scope;
  unsigned phase, forward;
  int flagged;
  PyObject* trace;
  if (!PyArg_ParseTuple(args, "ssIIpO", &type, &scope, &phase, &forward, &flagged, &trace)) return nullptr;
  SiteText text{scope, {}};
  const bool read = for_each(trace, [&](PyObject* tuple) {
    const char *file, *function;
    unsigned line;
    if (!PyArg_ParseTuple(tuple, "sIs", &file, &line, &function)) return false;
    text.trace.push_back({file, function, static_cast<int>(line)});
    keep_text_of_data(file, 0, {});  // a saved graph may name any file
    return true;
  });
  if (!read) return nullptr;
  return PyLong_FromUnsignedLong(intern(type, phase, forward, text, flagged != 0));
}

// site_wants(site, count) -> SONDE_WANT_*
PyObject* site_wants(PyObject*, PyObject* args) {
  unsigned number, count;
  if (!PyArg_ParseTuple(args, "II", &number, &count)) return nullptr;
  return PyLong_FromUnsignedLong(api().site_wants(number, count));
}

// op_replaced(site, types) -> whether the plan selects the site's ops, and none of those that compute them
PyObject* op_replaced(PyObject*, PyObject* args) {
  unsigned number;
  const char* by;
  if (!PyArg_ParseTuple(args, "Is", &number, &by)) return nullptr;
  return PyBool_FromLong(api().op_replaced(number, by));
}

// define_graph([node], [(position, node, output)]) -> its number for begin_run()
PyObject* define_graph(PyObject*, PyObject* args) {
  PyObject *nodes, *results;
  if (!PyArg_ParseTuple(args, "OO", &nodes, &results)) return nullptr;
  auto graph = std::make_unique<CompiledGraph>();
  if (!for_each(nodes, [&](PyObject* item) { return read_node(item, *graph); })) return nullptr;
  const bool read = for_each(results, [&](PyObject* item) {
    unsigned long long position, node;
    unsigned output;
    if (!PyArg_ParseTuple(item, "KKI", &position, &node, &output)) return false;
    if (add_result(*graph, {position, node, output})) return true;
    PyErr_SetString(PyExc_ValueError, "a result of a node that the graph does not have");
    return false;
  });
  if (!read) return nullptr;
  return PyLong_FromLongLong(keep_graph(std::move(graph)));
}

// begin_run(graph, backward, grad, resolve)
PyObject* begin_run_of(PyObject*, PyObject* args) {
  long long graph;
  int backward, grad;
  PyObject* resolve;
  if (!PyArg_ParseTuple(args, "LppO", &graph, &backward, &grad, &resolve)) return nullptr;
  Py_INCREF(resolve);
  const std::shared_ptr<PyObject> kept(resolve, [](PyObject* object) { Py_DECREF(object); });  // end_run() has the GIL
  begin_run(graph, graph_of_run(thread_state(), backward != 0, grad != 0),
            [kept](std::string_view text) { return resolved(kept.get(), text); });
  Py_RETURN_NONE;
}

// end_run(results): those of the graph, in a list or tuple; None if it has raised
PyObject* end_run_of(PyObject*, PyObject* results) {
  const bool has_results = PyList_Check(results) || PyTuple_Check(results);
  end_run([&](std::size_t position) -> const at::Tensor* {
    if (!has_results || position >= static_cast<std::size_t>(PySequence_Fast_GET_SIZE(results))) return nullptr;
    PyObject* result = PySequence_Fast_GET_ITEM(results, static_cast<Py_ssize_t>(position));
    return THPVariable_Check(result) ? &THPVariable_Unpack(result) : nullptr;
  });
  Py_RETURN_NONE;
}

// memory_changed(): compiled code has run without taps, and it is not known which memory it wrote
PyObject* memory_changed(PyObject*, PyObject*) {
  if (capturing()) api().storage_changed(0);
  Py_RETURN_NONE;
}

// optimizer_end(): a compiled Optimizer.step has returned
PyObject* optimizer_end(PyObject*, PyObject*) {
  if (is_inert()) Py_RETURN_NONE;
  api().optimizer_end();
  set_capture();
  Py_RETURN_NONE;
}

}  // namespace sonde_torch
