#include "place.h"

#include <ATen/core/grad_mode.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "capture.h"
#include "data_sources.h"
#include "gil.h"
#include "hash.h"
#include "python_setup.h"

namespace sonde_torch {
namespace {

std::atomic<std::uint64_t> g_generation{1};                    // changes when names by address become invalid
auto* g_reported_texts = new std::unordered_set<std::string>;  // files; under the GIL, leaked

std::string text_of(PyObject* unicode) {
  const char* text = unicode != nullptr ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (text == nullptr) drop_error();
  return text != nullptr ? text : "";
}

// With the GIL. A notebook's cell has no file: its text is requested once.
void report_source_text(PyObject* file) {
  if (!g_reported_texts->insert(text_of(file)).second) return;
  PyObject* text = PyObject_CallOneArg(setup().python.source_of, file);
  if (text == nullptr) drop_error();
  if (text != nullptr && text != Py_None) api().source_text(text_of(file).c_str(), text_of(text).c_str());
  Py_XDECREF(text);
}

SiteLine line_of(const CodePlace& place) {
  SiteLine out;
  out.file = text_of(place.code->co_filename);
#if PY_VERSION_HEX < 0x030B0000  // has neither qualified names nor columns
  out.function = text_of(place.code->co_name);
  out.line = PyCode_Addr2Line(place.code, place.instruction);
#else
  out.function = text_of(place.code->co_qualname);
  PyCode_Addr2Location(place.code, place.instruction, &out.line, &out.column, &out.end_line, &out.end_column);
#endif
  report_source_text(place.code->co_filename);
  return out;
}

// With the GIL. (scope, [(file, line, function, text)], of an optimizer) of a node: its modules were not called, and its
// lines not executed.
void look_into_graph(const Walk& walk, SiteText& out) {
  const int line = PyCode_Addr2Line(walk.graph_code, walk.graph_instruction) - walk.graph_code->co_firstlineno;
  PyObject* module = walk.graph_module != nullptr ? walk.graph_module : walk.modules[0];
  PyObject* place = PyObject_CallFunction(setup().python.place_in_graph, "Oi", module, line);
  PyObject *scope = nullptr, *lines = nullptr;
  int optimizer = 0;
  if (place != nullptr && place != Py_None &&
      PyArg_ParseTuple(place, "UO!p", &scope, &PyList_Type, &lines, &optimizer) != 0) {
    out.optimizer = optimizer != 0;
    if (out.optimizer) out.scope.clear();
    if (const std::string below = text_of(scope); !below.empty()) out.scope += (out.scope.empty() ? "" : "/") + below;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(lines); ++i) {
      SiteLine found;
      PyObject *file = nullptr, *function = nullptr, *text = nullptr;
      if (PyArg_ParseTuple(PyList_GET_ITEM(lines, i), "UiUU", &file, &found.line, &function, &text) == 0) break;
      found.file = text_of(file);
      found.function = text_of(function);
      keep_text_of_data(found.file, found.line, text_of(text));
      out.trace.push_back(std::move(found));
    }
  }
  drop_error();
  Py_XDECREF(place);
}

// With the GIL: the name of the module chain and the lines of the call, once per new site.
SiteText resolve(const Walk& walk, FrameMark mark) {
  SiteText out;
  const Gil gil;
  const SavedError saved;
  const Untraced here;
  if (walk.module_count > 0) {
    PyObject* chain = PyTuple_New(walk.module_count);
    for (int i = 0; i < walk.module_count; ++i) {
      PyObject* module = walk.modules[walk.module_count - 1 - i];
      Py_INCREF(module);
      PyTuple_SET_ITEM(chain, i, module);
    }
    if (PyObject* scope = PyObject_CallOneArg(setup().python.scope_of, chain)) {
      out.scope = text_of(scope);
      Py_DECREF(scope);
    } else {
      drop_error();
    }
    Py_DECREF(chain);
  }
  if (walk.graph_code != nullptr && (walk.module_count > 0 || walk.graph_module != nullptr)) look_into_graph(walk, out);
  const bool in_graph = !out.trace.empty();
  if (walk.script.hash != 0) {
    const std::string below = script_scope(walk.script);
    if (!below.empty()) out.scope += (out.scope.empty() ? "" : "/") + below;
    for (SiteLine& line : script_lines()) out.trace.push_back(std::move(line));
  }
  constexpr std::size_t kMostCallers = 32;
  if (walk.code == nullptr) return out;
  for (const CodePlace& place : trace_frames(setup().frames, mark, walk, kMostCallers)) {
    SiteLine line = line_of(place);
    // Dynamo's own code for a function that it compiled: all of it has the line of the `def`.
    const bool is_compiled = in_graph && line.line == place.code->co_firstlineno &&
                             line.file == out.trace.back().file &&
                             text_of(place.code->co_name) == out.trace.back().function;
    if (!is_compiled) out.trace.push_back(std::move(line));
  }
  return out;
}

void fresh_tables(ThreadState& state) {
  const std::uint64_t generation = g_generation.load(std::memory_order_acquire);
  if (state.generation == generation) return;
  state.generation = generation;
  state.sites.clear();
  state.forwards.clear();
  state.groups.clear();
  state.known_groups.clear();
  state.of_optimizer.clear();
}

std::uint32_t cached_site(ThreadState& state, std::uint64_t key, const char* op_type, std::uint32_t phase,
                          std::uint32_t forward_site, const Walk* walk, const std::string* scope,
                          FrameMark mark = nullptr) {
  if (const std::uint32_t known = state.sites.find(key); known != 0) return known;
  if (walk != nullptr && !python_is_alive()) return 0;
  state.busy = true;
  SiteText text = walk != nullptr ? resolve(*walk, mark) : SiteText{};
  if (scope != nullptr) text.scope = *scope;
  if (text.optimizer) phase = SONDE_PHASE_OPTIMIZER;
  if (phase == SONDE_PHASE_FORWARD && text.scope.empty()) phase = SONDE_PHASE_OUTSIDE;
  state.made = {std::move(text), phase, forward_site, walk != nullptr && walk->flagged};
  const std::uint32_t site = intern(op_type, phase, forward_site, state.made.text, state.made.flagged);
  state.busy = false;
  state.sites.add(key, site);
  if (state.made.text.optimizer) state.of_optimizer.insert(site);
  return site;
}

// Modules that TorchScript's interpreter calls have no frames.
void look_into_script(Walk& walk) {
  walk.script = script_place();
  if (walk.script.hash != 0) walk.hash = mix(walk.hash, walk.script.hash);
}

// sonde.dump_scope(): flags all ops that this thread runs inside.
void flag_scope(const ThreadState& state, Walk& walk) {
  if (state.dump_scopes == 0 || walk.flagged) return;
  walk.flagged = true;
  walk.hash = mix(walk.hash, 0xF1A6);
}

// The innermost node, wrapper or optimizer around the event that starts now.
const Frame* enclosing(const ThreadState& state) { return state.frames.empty() ? nullptr : &state.frames.back(); }

void see_root(ThreadState& state, PyObject* module) {
  state.busy = true;
  {
    const Gil gil;
    const SavedError saved;
    const Untraced here;
    PyObject* result = PyObject_CallOneArg(setup().python.new_root, module);
    Py_XDECREF(result);
  }
  state.busy = false;
}

bool says_yes(ThreadState& state, PyObject* question) {
  if (!python_is_alive()) return false;
  state.busy = true;
  bool answer = false;
  {
    const Gil gil;
    const SavedError saved;
    const Untraced here;
    PyObject* result = PyObject_CallNoArgs(question);
    answer = result == Py_True;
    Py_XDECREF(result);
  }
  state.busy = false;
  return answer;
}

sonde_graph outside_graph() {
  return at::GradMode::is_enabled() ? SONDE_GRAPH_OUTSIDE_GRAD : SONDE_GRAPH_OUTSIDE_NO_GRAD;
}

std::uint64_t module_key(const Walk& walk, std::uint64_t op_number) {
  return mix(mix(0x1005, op_number), reinterpret_cast<std::uint64_t>(walk.modules[0]));
}

std::uint64_t line_key(const Walk& walk, std::uint64_t op_number) {
  return mix(mix(mix(0x1006, op_number), reinterpret_cast<std::uint64_t>(walk.code)),
             static_cast<std::uint64_t>(walk.instruction));
}

// The forward op that this one repeats: in the same module if only PyTorch's own code called it (nn.Sequential), on the
// same line if no module was called between the checkpoint and the op. 0: not needed, or unknown.
std::uint32_t first_forward(const ThreadState& state, const Walk& walk, std::uint64_t number) {
  if (walk.module_count > 0 && walk.code != nullptr) return 0;
  const auto first = state.forwards.find(walk.module_count > 0 ? module_key(walk, number) : line_key(walk, number));
  return first != state.forwards.end() ? first->second : 0;
}

// Code of a library that no line of the user's calls: its place is the line of its outermost function.
void use_outermost_line(FrameMark mark, Walk& walk) {
  const CodePlace place = outermost_frame(mark);
  walk.code = place.code;
  walk.instruction = place.instruction;
  walk.hash =
      mix(mix(walk.hash, reinterpret_cast<std::uint64_t>(place.code)), static_cast<std::uint64_t>(place.instruction));
}

// A hook of a library on a parameter's gradient, as DDP's compression of all gradients: it repeats and differentiates no
// op of the forward pass.
Place place_in_hook(ThreadState& state, const Frame& node, const char* op_type, std::uint64_t number, Walk& walk) {
  use_outermost_line(node.mark, walk);
  const std::uint64_t key = mix(mix(0x1008, number), walk.hash);
  return {cached_site(state, key, op_type, SONDE_PHASE_BACKWARD, 0, &walk, nullptr, node.mark), SONDE_GRAPH_TRAINING};
}

// The forward op's names and line.
Place place_of_forward_op(ThreadState& state, const Frame& node, const char* op_type, std::uint64_t number) {
  const std::uint64_t key = mix(mix(0x1001, number), node.site);
  return {cached_site(state, key, op_type, SONDE_PHASE_BACKWARD, node.site, nullptr, nullptr), SONDE_GRAPH_TRAINING};
}

Place place_in_backward(ThreadState& state, const Frame& node, const char* op_type, std::uint64_t number) {
  const FrameMark now = current_frame();
  if (now == node.mark || now == nullptr) return place_of_forward_op(state, node, op_type, number);  // only C++
  Walk walk;
  walk_frames(setup().frames, node.mark, Until::root, walk);
  flag_scope(state, walk);
  if (node.leaf && walk.module_count == 0 && walk.code == nullptr) {
    // The parameter is the module's own, which has split it in its forward: FSDP's flat parameter.
    if (node.site != 0 && works_on_module(setup().frames, node.mark)) {
      return place_of_forward_op(state, node, op_type, number);
    }
    return place_in_hook(state, node, op_type, number, walk);
  }
  // Modules called inside a backward node, or user's lines inside a checkpoint: a forward is repeated.
  const bool again = walk.module_count > 0 || (walk.recomputes && walk.code != nullptr);
  const std::uint32_t phase = again ? SONDE_PHASE_RECOMPUTE : SONDE_PHASE_BACKWARD;
  const std::uint32_t forward = again ? first_forward(state, walk, number) : node.site;
  const std::uint64_t key = mix(mix(mix(0x1002, number), walk.hash), forward);
  return {cached_site(state, key, op_type, phase, forward, &walk, nullptr, node.mark), SONDE_GRAPH_TRAINING};
}

Place place_forward(ThreadState& state, const char* op_type, std::uint64_t number, const Frame* optimizer) {
  Walk walk;
  walk_frames(setup().frames, nullptr, optimizer != nullptr ? Until::optimizer_step : Until::root, walk);
  look_into_script(walk);
  flag_scope(state, walk);
  // On a thread of PyTorch's: what follows a collective of DDP's hooks.
  if (walk.code == nullptr && walk.module_count == 0 && walk.script.hash == 0) use_outermost_line(nullptr, walk);
  // The user's code inside Optimizer.step, with gradients: it is the closure, and not the optimizer's arithmetic.
  const bool in_closure = walk.inside_step && walk.code != nullptr && at::GradMode::is_enabled();
  if (optimizer != nullptr && walk.module_count == 0 && !in_closure) {
    const std::uint64_t key = mix(mix(mix(0x1003, number), walk.hash), std::hash<std::string>{}(optimizer->scope));
    return {cached_site(state, key, op_type, SONDE_PHASE_OPTIMIZER, 0, &walk, &optimizer->scope), SONDE_GRAPH_TRAINING};
  }
  Place place;
  place.graph = outside_graph();
  if (walk.module_count == 0) {
    state.grad_outside = at::GradMode::is_enabled();
  } else {
    PyObject* root = walk.modules[walk.module_count - 1];
    if (root == state.current_root) {
      place.graph = state.current_root_trains ? SONDE_GRAPH_TRAINING : SONDE_GRAPH_EVALUATION;
    }
  }
  const std::uint64_t key = mix(mix(0x1004, number), walk.hash);
  place.site = state.sites.find(key);
  if (place.site != 0) return place;
  const bool is_new = walk.module_count > 0;
  if (is_new) {
    // A chain that is new may begin with a module whose call was not observed.
    PyObject* root = walk.modules[walk.module_count - 1];
    see_root(state, root);
    fresh_tables(state);
    if (root == state.current_root) {
      place.graph = state.current_root_trains ? SONDE_GRAPH_TRAINING : SONDE_GRAPH_EVALUATION;
    }
  }
  place.site = cached_site(state, key, op_type, SONDE_PHASE_FORWARD, 0, &walk, nullptr);
  if (is_new) state.forwards[module_key(walk, number)] = place.site;
  if (walk.code != nullptr) state.forwards[line_key(walk, number)] = place.site;
  return place;
}

}  // namespace

Place place_of(ThreadState& state, const at::RecordFunction&, const char* op_type, std::uint64_t number) {
  fresh_tables(state);
  const Frame* around = enclosing(state);
  if (around != nullptr && around->kind != FrameKind::optimizer) {
    return place_in_backward(state, *around, op_type, number);
  }
  Place place = place_forward(state, op_type, number, around);
  if (!state.of_optimizer.empty() && state.of_optimizer.contains(place.site)) place.graph = SONDE_GRAPH_TRAINING;
  return place;
}

std::uint32_t site_of_node(ThreadState& state, const char* name, std::uint32_t forward_site) {
  const std::uint64_t key = mix(mix(0x1007, std::hash<std::string_view>{}(name)), forward_site);
  return cached_site(state, key, name, SONDE_PHASE_BACKWARD, forward_site, nullptr, nullptr);
}

bool bare_training(ThreadState& state) {
  constexpr std::uint64_t kAskEachTime = 1000, kThenEvery = 100;
  const std::uint64_t asked = state.asked_bare++;
  if (asked > kAskEachTime && asked % kThenEvery != 0) return false;
  return says_yes(state, setup().python.bare_training);
}

bool parameters_exist(ThreadState& state) { return says_yes(state, setup().python.parameters_exist); }

sonde_graph package_begins(ThreadState& state, const void* identity) {
  int depth = 0;
  PyObject* root = outermost_module(setup().frames, depth);
  if (root == nullptr) {
    const at::NoGradGuard without_gradients;  // a package has none, so that its call is not a training's
    root_forward(identity, {.has_parameters = true,
                            .optimizer_alive = false,
                            .may_train_without_grad = false,
                            .trained = true,
                            .evaluates = false});
    state.package = identity;
  }
  if (root != nullptr && root != state.current_root) return outside_graph();
  return state.current_root_trains ? SONDE_GRAPH_TRAINING : SONDE_GRAPH_EVALUATION;
}

std::string scope_of_callers() {
  Walk walk;
  walk_frames(setup().frames, nullptr, Until::root, walk);
  walk.graph_code = nullptr;
  walk.code = nullptr;
  return walk.module_count > 0 ? resolve(walk, nullptr).scope : "";
}

void forget_scopes() { g_generation.fetch_add(1); }

void forget_source_texts() { g_reported_texts->clear(); }

}  // namespace sonde_torch
