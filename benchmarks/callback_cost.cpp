// The parts of Sonde's callback, one by one, for callback_cost.py. Two ways, neither of which touches what is shipped:
// callbacks of our own that do a little more each, made of the adapter's own functions; and a copy of the engine's
// function table whose functions count the nanoseconds spent in the real ones.
#include <ATen/record_function.h>
#include <Python.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#include "frames.h"
#include "ops.h"
#include "sonde/sonde.h"
#include "tensors.h"

namespace {

using at::RecordFunction;
using at::RecordScope;
using namespace sonde_torch;

// --- callbacks that do ever more --------------------------------------------------------------------------------------

enum Level { kEmpty, kInputs, kOutputs, kSchema, kFrames, kDescribe, kLevels };

FrameFacts g_facts;
std::uint64_t g_events = 0;
volatile std::uint64_t g_sink = 0;
at::CallbackHandle g_handle = 0;

template <int level>
std::unique_ptr<at::ObserverContext> on_start(const RecordFunction& fn) {
  ++g_events;
  if constexpr (level >= kSchema) g_sink = g_sink + (op_info(fn) != nullptr ? 1 : 0);
  if constexpr (level >= kFrames) {
    Walk walk;
    walk_frames(g_facts, nullptr, Until::root, walk);
    g_sink = g_sink + walk.hash;
  }
  if constexpr (level >= kDescribe) {
    static thread_local std::array<TensorDescriptor, 4> inputs;
    std::size_t used = 0;
    for (const c10::IValue& value : fn.inputs())
      if (value.isTensor() && used < inputs.size()) inputs[used++].describe(value.toTensor(), true);
    while (used > 0) inputs[--used].alive.reset();
  }
  return nullptr;
}

template <int level>
void on_end(const RecordFunction& fn, at::ObserverContext*) {
  if constexpr (level >= kDescribe) {
    static thread_local TensorDescriptor output;
    for (const c10::IValue& value : fn.outputs())
      if (value.isTensor()) output.describe(value.toTensor(), false);
  }
}

template <int level>
at::RecordFunctionCallback callback() {
  return at::RecordFunctionCallback(on_start<level>, on_end<level>)
      .needsInputs(level >= kInputs)
      .needsOutputs(level >= kOutputs)
      .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION});
}

// observe(level, code of nn.Module's call, code of the optimizer's wrapper, directory of nobody's code)
PyObject* observe(PyObject*, PyObject* args) {
  int level;
  PyObject *module_call, *optimizer_step;
  const char* prefix;
  if (!PyArg_ParseTuple(args, "iO!O!s", &level, &PyCode_Type, &module_call, &PyCode_Type, &optimizer_step, &prefix))
    return nullptr;
  g_facts.module_call = reinterpret_cast<PyCodeObject*>(Py_NewRef(module_call));
  g_facts.optimizer_step = reinterpret_cast<PyCodeObject*>(Py_NewRef(optimizer_step));
  g_facts.skipped_prefixes[0] = prefix;
  const std::array<at::RecordFunctionCallback, kLevels> all = {callback<kEmpty>(),   callback<kInputs>(),
                                                               callback<kOutputs>(), callback<kSchema>(),
                                                               callback<kFrames>(),  callback<kDescribe>()};
  g_events = 0;
  g_handle = at::addGlobalCallback(all.at(static_cast<std::size_t>(level)));
  Py_RETURN_NONE;
}

// ignore() -> events since observe()
PyObject* ignore(PyObject*, PyObject*) {
  at::removeCallback(g_handle);
  purge_storages();
  return PyLong_FromUnsignedLongLong(g_events);
}

// --- the engine's functions, timed ------------------------------------------------------------------------------------

enum Function { kBegin, kInputBefore, kMutated, kInput, kOutput, kEnd, kFunctions };
constexpr std::array kNames = {"op_begin", "op_input_before", "op_mutated", "op_input", "op_output", "op_end"};

struct Spent {
  std::uint64_t calls = 0, nanoseconds = 0;
};

std::uint64_t now() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

const struct sonde_api* g_engine = nullptr;
std::array<Spent, kFunctions> g_spent;  // of the one thread that the benchmark has

class Timed {
 public:
  explicit Timed(Function function) : function_(function), began_(now()) {}
  ~Timed() {
    Spent& spent = g_spent[function_];
    spent.nanoseconds += now() - began_;
    ++spent.calls;
  }

 private:
  Function function_;
  std::uint64_t began_;
};

std::uint32_t timed_begin(std::uint32_t site, sonde_graph graph, std::uint64_t attributes, sonde_op** op) {
  const Timed timed(kBegin);
  return g_engine->op_begin(site, graph, attributes, op);
}
void timed_input_before(sonde_op* op, std::uint32_t slot, const sonde_tensor* tensor) {
  const Timed timed(kInputBefore);
  g_engine->op_input_before(op, slot, tensor);
}
void timed_mutated(sonde_op* op, std::uint64_t storage) {
  const Timed timed(kMutated);
  g_engine->op_mutated(op, storage);
}
void timed_input(sonde_op* op, std::uint32_t slot, const sonde_tensor* tensor) {
  const Timed timed(kInput);
  g_engine->op_input(op, slot, tensor);
}
void timed_output(sonde_op* op, std::uint32_t slot, const sonde_tensor* tensor) {
  const Timed timed(kOutput);
  g_engine->op_output(op, slot, tensor);
}
void timed_end(sonde_op* op, int failed) {
  const Timed timed(kEnd);
  g_engine->op_end(op, failed);
}

// timed_api(address of the engine's table) -> address of ours
PyObject* timed_api(PyObject*, PyObject* address) {
  g_engine = static_cast<const struct sonde_api*>(PyLong_AsVoidPtr(address));
  if (g_engine == nullptr) return nullptr;
  static struct sonde_api table;
  table = *g_engine;
  table.op_begin = timed_begin;
  table.op_input_before = timed_input_before;
  table.op_mutated = timed_mutated;
  table.op_input = timed_input;
  table.op_output = timed_output;
  table.op_end = timed_end;
  return PyLong_FromVoidPtr(&table);
}

// spent() -> {function: (calls, nanoseconds)}, and begins anew
PyObject* spent(PyObject*, PyObject*) {
  PyObject* result = PyDict_New();
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    PyObject* value = Py_BuildValue("(KK)", g_spent[i].calls, g_spent[i].nanoseconds);
    PyDict_SetItemString(result, kNames[i], value);
    Py_DECREF(value);
  }
  g_spent = {};
  return result;
}

// clock() -> nanoseconds that timing a function costs by itself
PyObject* clock(PyObject*, PyObject*) {
  std::uint64_t own = UINT64_MAX;
  for (int i = 0; i < 10'000; ++i) {
    g_spent[kBegin] = {};
    { const Timed timed(kBegin); }
    own = std::min(own, g_spent[kBegin].nanoseconds);
  }
  g_spent = {};
  return PyLong_FromUnsignedLongLong(own);
}

PyMethodDef kMethods[] = {
    {"observe", observe, METH_VARARGS, nullptr}, {"ignore", ignore, METH_NOARGS, nullptr},
    {"timed_api", timed_api, METH_O, nullptr},   {"spent", spent, METH_NOARGS, nullptr},
    {"clock", clock, METH_NOARGS, nullptr},      {nullptr, nullptr, 0, nullptr},
};
PyModuleDef kModule = {
    PyModuleDef_HEAD_INIT, "_callback_cost", nullptr, -1, kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__callback_cost() { return PyModule_Create(&kModule); }
