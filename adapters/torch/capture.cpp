#include "capture.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "attributes.h"
#include "backward.h"
#include "collectives.h"
#include "ops.h"
#include "tensors.h"
#include "threads.h"

namespace sonde_torch {
namespace {

using at::RecordFunction;
using at::RecordScope;

// One per session, leaked: an operator of another thread may still use the last one's.
std::atomic<const Setup*> g_setup{nullptr};
std::atomic<bool> g_inert{true};             // no session, or a forked child
std::atomic<bool> g_on{false};               // the operator callback is enabled
std::atomic<std::uint64_t> g_generation{1};  // changes when names by address go stale
std::atomic<bool> g_root_seen{false};
auto* g_texts_told = new std::unordered_set<std::string>;  // files; under the GIL, leaked
at::CallbackHandle g_operators = 0, g_users = 0;

const Setup& setup() { return *g_setup.load(std::memory_order_acquire); }
const struct sonde_api& api() { return *setup().api; }

// Guards the operator callback's being on or off.
std::atomic<std::mutex*> g_switch{new std::mutex};

enum class FrameKind : std::uint8_t { op, node, wrapper, optimizer };

// One event in flight that we care about. Nested operators have none.
struct Frame {
  FrameKind kind = FrameKind::op;
  const RecordFunction* fn = nullptr;
  std::uint32_t site = 0;    // op: its site; node, wrapper: the forward op's site
  FrameMark mark = nullptr;  // node: the Python frame it was entered from
  const OpInfo* info = nullptr;
  sonde_op* op = nullptr;
  std::size_t first_input = 0;  // op: its arguments are [first_input, input_count) of the thread's
  int exceptions = 0;           // op: in flight when it began
  bool outermost_step = false;  // optimizer: Optimizer.step, not nested
  std::string scope;            // optimizer: `optimizer-SGD`
};

Frame frame_of(FrameKind kind, const RecordFunction& fn) {
  Frame frame;
  frame.kind = kind;
  frame.fn = &fn;
  return frame;
}

struct InputArgument {
  Described described;
  std::uint32_t slot = 0;
  bool written = false;
  bool result = false;
  bool told = false;  // reported before the kernel
};

struct ThreadState {
  std::vector<Frame> frames;
  std::vector<std::unique_ptr<InputArgument>> inputs;  // a reused stack; the last op in flight owns its end
  std::size_t input_count = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> sites;
  std::unordered_map<std::uint64_t, std::uint32_t> forwards;  // (module, op type) -> its forward site
  std::uint64_t generation = 0;
  PyObject* current_root = nullptr;  // the root whose forward began last on this thread
  bool current_root_trains = true;
  bool grad_outside = false;  // gradients were on at the last op outside every module
  int optimizer_depth = 0;
  bool step_returned = false;  // the outermost Optimizer.step has not raised
  std::uint64_t asked_bare = 0;
  bool busy = false;  // inside our own slow path
  Described scratch;
  SequenceOwners* owners = nullptr;
};

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0xD6E8FEB86659FD93ULL;
  return hash ^ (hash >> 32);
}

SequenceOwners& owners_of(ThreadState& state) {
  if (state.owners == nullptr) state.owners = &sequence_owners(RecordFunction::currentThreadId());
  return *state.owners;
}

// --- sites -----------------------------------------------------------------------------------------------------------

bool python_is_alive() { return Py_IsInitialized() != 0 && _Py_IsFinalizing() == 0; }

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  // A daemon's thread that asks for the GIL while the interpreter ends is unwound from there, without it.
  ~Gil() {
    if (python_is_alive()) PyGILState_Release(state);
  }
};

// An exception of the user's own that is in flight survives what we call.
struct SavedError {
  PyObject *type, *value, *trace;
  SavedError() { PyErr_Fetch(&type, &value, &trace); }
  ~SavedError() {
    if (!python_is_alive()) return;
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
  }
};

std::string text_of(PyObject* unicode) {
  const char* text = unicode != nullptr ? PyUnicode_AsUTF8(unicode) : nullptr;
  return text != nullptr ? text : "";
}

struct SiteLine {
  std::string file, function;
  int line = 0, column = 0, end_line = 0, end_column = 0;
};

struct SiteText {
  std::string scope;
  std::vector<SiteLine> trace;  // innermost first
};

// With the GIL. A cell of a notebook is no file: its text is asked for once.
void tell_source_text(PyObject* file) {
  if (!g_texts_told->insert(text_of(file)).second) return;
  PyObject* text = PyObject_CallOneArg(setup().python.source_of, file);
  if (text != nullptr && text != Py_None) api().source_text(text_of(file).c_str(), text_of(text).c_str());
  Py_XDECREF(text);
}

SiteLine line_of(const CodePlace& place) {
  SiteLine out;
  out.file = text_of(place.code->co_filename);
  out.function = text_of(place.code->co_qualname);
  PyCode_Addr2Location(place.code, place.instruction, &out.line, &out.column, &out.end_line, &out.end_column);
  tell_source_text(place.code->co_filename);
  return out;
}

// With the GIL: the module chain's name and the lines that led here, once per new site.
SiteText resolve(const Walk& walk, FrameMark mark) {
  SiteText out;
  const Gil gil;
  const SavedError saved;
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
    }
    Py_DECREF(chain);
  }
  constexpr std::size_t kMostCallers = 32;
  if (walk.code == nullptr) return out;
  for (const CodePlace& place : trace_frames(setup().frames, mark, walk, kMostCallers)) {
    out.trace.push_back(line_of(place));
  }
  return out;
}

std::uint32_t intern(const char* op_type, std::uint32_t phase, std::uint32_t forward_site, const SiteText& text) {
  const auto number = [](int n) { return n > 0 ? static_cast<std::uint32_t>(n) : 0; };  // -1: unknown
  std::vector<sonde_source_line> trace;
  for (const SiteLine& line : text.trace) {
    trace.push_back({number(line.line), number(line.column), number(line.end_line), number(line.end_column),
                     line.file.c_str(), line.function.c_str()});
  }
  sonde_site site{};
  site.size = sizeof site;
  site.phase = phase;
  site.forward_site = forward_site;
  site.trace_count = static_cast<std::uint32_t>(trace.size());
  site.op_type = op_type;
  site.scope = text.scope.c_str();
  site.trace = trace.data();
  return api().site(&site);
}

void fresh_tables(ThreadState& state) {
  const std::uint64_t generation = g_generation.load(std::memory_order_acquire);
  if (state.generation == generation) return;
  state.generation = generation;
  state.sites.clear();
  state.forwards.clear();
}

std::uint32_t cached_site(ThreadState& state, std::uint64_t key, const char* op_type, std::uint32_t phase,
                          std::uint32_t forward_site, const Walk* walk, const std::string* scope,
                          FrameMark mark = nullptr) {
  const auto known = state.sites.find(key);
  if (known != state.sites.end()) return known->second;
  if (walk != nullptr && !python_is_alive()) return 0;
  state.busy = true;
  SiteText text = walk != nullptr ? resolve(*walk, mark) : SiteText{};
  if (scope != nullptr) text.scope = *scope;
  if (phase == SONDE_PHASE_FORWARD && text.scope.empty()) phase = SONDE_PHASE_OUTSIDE;
  const std::uint32_t site = intern(op_type, phase, forward_site, text);
  state.busy = false;
  if (site != 0) state.sites.emplace(key, site);
  return site;
}

// The innermost node, wrapper or optimizer around the event that starts now.
const Frame* enclosing(const ThreadState& state) { return state.frames.empty() ? nullptr : &state.frames.back(); }

struct Place {
  std::uint32_t site = 0;
  std::uint32_t graph = SONDE_GRAPH_TRAINING;
};

void see_root(ThreadState& state, PyObject* module) {
  state.busy = true;
  {
    const Gil gil;
    const SavedError saved;
    PyObject* result = PyObject_CallOneArg(setup().python.new_root, module);
    Py_XDECREF(result);
  }
  state.busy = false;
}

// Whether the step clock must begin without a root: asked while none was seen, less and less often.
bool bare_training(ThreadState& state) {
  constexpr std::uint64_t kAskEachTime = 1000, kThenEvery = 100;
  const std::uint64_t asked = state.asked_bare++;
  if ((asked > kAskEachTime && asked % kThenEvery != 0) || !python_is_alive()) return false;
  state.busy = true;
  bool answer = false;
  {
    const Gil gil;
    const SavedError saved;
    if (PyObject* result = PyObject_CallNoArgs(setup().python.bare_training)) {
      answer = result == Py_True;
      Py_DECREF(result);
    }
  }
  state.busy = false;
  return answer;
}

std::uint32_t outside_graph() {
  return at::GradMode::is_enabled() ? SONDE_GRAPH_OUTSIDE_GRAD : SONDE_GRAPH_OUTSIDE_NO_GRAD;
}

std::uint64_t module_key(const Walk& walk, std::uint64_t op_number) {
  return mix(mix(0x1005, op_number), reinterpret_cast<std::uint64_t>(walk.modules[0]));
}

Place place_in_backward(ThreadState& state, const Frame& node, const char* op_type, std::uint64_t number) {
  const FrameMark now = current_frame();
  if (now == node.mark || now == nullptr) {  // C++ all the way: the forward op's names and line
    const std::uint64_t key = mix(mix(0x1001, number), node.site);
    return {cached_site(state, key, op_type, SONDE_PHASE_BACKWARD, node.site, nullptr, nullptr), SONDE_GRAPH_TRAINING};
  }
  Walk walk;
  walk_frames(setup().frames, node.mark, Until::root, walk);
  // Modules called from inside a backward node: a checkpoint runs its forward again.
  const std::uint32_t phase = walk.module_count > 0 ? SONDE_PHASE_RECOMPUTE : SONDE_PHASE_BACKWARD;
  std::uint32_t forward = walk.module_count > 0 ? 0 : node.site;
  if (walk.module_count > 0 && walk.code == nullptr) {
    // Only PyTorch's own code between the node and the module (nn.Sequential): the line is that of the first forward.
    const auto first = state.forwards.find(module_key(walk, number));
    if (first != state.forwards.end()) forward = first->second;
  }
  const std::uint64_t key = mix(mix(mix(0x1002, number), walk.hash), forward);
  return {cached_site(state, key, op_type, phase, forward, &walk, nullptr, node.mark), SONDE_GRAPH_TRAINING};
}

Place place_forward(ThreadState& state, const char* op_type, std::uint64_t number, const Frame* optimizer) {
  Walk walk;
  walk_frames(setup().frames, nullptr, optimizer != nullptr ? Until::optimizer_step : Until::root, walk);
  // Code of the user's own inside Optimizer.step, with gradients: the closure, not the optimizer's arithmetic.
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
  const auto known = state.sites.find(key);
  if (known == state.sites.end() && walk.module_count > 0) {
    // A chain seen for the first time may begin with a module nobody has seen called.
    PyObject* root = walk.modules[walk.module_count - 1];
    see_root(state, root);
    fresh_tables(state);
    if (root == state.current_root) {
      place.graph = state.current_root_trains ? SONDE_GRAPH_TRAINING : SONDE_GRAPH_EVALUATION;
    }
  }
  place.site = cached_site(state, key, op_type, SONDE_PHASE_FORWARD, 0, &walk, nullptr);
  if (known == state.sites.end() && walk.module_count > 0) state.forwards[module_key(walk, number)] = place.site;
  return place;
}

Place place_of(ThreadState& state, const char* op_type, std::uint64_t number) {
  fresh_tables(state);
  const Frame* around = enclosing(state);
  if (around != nullptr && around->kind != FrameKind::optimizer) {
    return place_in_backward(state, *around, op_type, number);
  }
  return place_forward(state, op_type, number, around);
}

// --- one op ----------------------------------------------------------------------------------------------------------

InputArgument& next_input(ThreadState& state) {
  if (state.input_count == state.inputs.size()) state.inputs.push_back(std::make_unique<InputArgument>());
  return *state.inputs[state.input_count++];
}

void collect_tensor(ThreadState& state, const c10::IValue& value, std::uint32_t slot, const ArgumentInfo& argument) {
  if (!value.isTensor()) return;
  const at::Tensor& tensor = value.toTensor();  // a reference: copying the handle may take the GIL
  if (!tensor.defined()) return;
  // A reference into the stack of this thread; unique_ptr keeps it in place when the stack grows.
  InputArgument& input = next_input(state);
  input.slot = slot;
  input.written = argument.written;
  input.result = argument.result;
  input.told = false;
  input.described.describe(tensor, true);
  meet_collectives(input.described.tensor);
}

void collect_list(ThreadState& state, const c10::IValue& list, std::uint32_t& slot, const ArgumentInfo& argument) {
  for (const c10::IValue& element : list.toListRef()) {
    if (element.isList()) {
      collect_list(state, element, slot, argument);  // collectives take lists of lists
    } else {
      collect_tensor(state, element, slot++, argument);
    }
  }
}

void collect_inputs(ThreadState& state, const OpInfo& info, c10::ArrayRef<const c10::IValue> values) {
  std::uint32_t slot = 0;
  const std::size_t first = state.input_count;
  for (std::size_t i = 0; i < info.arguments.size() && i < values.size(); ++i) {
    const ArgumentInfo& argument = info.arguments[i];
    if (argument.kind == ArgumentKind::tensor) {
      collect_tensor(state, values[i], slot++, argument);
    } else if (argument.kind == ArgumentKind::tensor_list && values[i].isList()) {
      collect_list(state, values[i], slot, argument);
    }
  }
  if (!info.barrier && !info.waits) return;
  for (std::size_t i = first; i < state.input_count; ++i) {
    const char*& skip = state.inputs[i]->described.tensor.skip;
    if (skip == nullptr) skip = info.barrier ? "uninitialised memory" : "a collective, not yet complete";
  }
}

c10::ArrayRef<const c10::IValue> arguments_of(const RecordFunction& fn) {
  const c10::ArrayRef<const c10::IValue> values = fn.inputs();
  const std::size_t count = std::min<std::size_t>(fn.num_inputs(), values.size());
  return values.slice(values.size() - count, count);  // boxed calls show the whole stack
}

// Memory that numbers are shared with under another identity (NumPy, DLPack): nothing known may hold any more.
bool has_aliases(const InputArgument& input) { return (input.described.tensor.flags & SONDE_TENSOR_FOREIGN) != 0; }

// An op that is not recorded, or runs inside `op`, writes: what is known of that memory is no longer true.
void tell_unrecorded_writes(ThreadState& state, const RecordFunction& fn, const OpInfo& info, sonde_op* op) {
  const std::size_t first = state.input_count;
  collect_inputs(state, info, arguments_of(fn));
  while (state.input_count > first) {
    InputArgument& input = *state.inputs[--state.input_count];
    const std::uint64_t storage = input.described.tensor.storage;
    if (input.written && storage != 0) {
      if (op == nullptr || has_aliases(input)) api().wrote(has_aliases(input) ? 0 : storage);
      if (op != nullptr) api().op_wrote(op, storage);
    }
    input.described.alive.reset();
  }
}

// By address, not by identity: two storages may stand over one piece of memory.
bool share_memory(const sonde_tensor& a, const sonde_tensor& b) {
  const char* first = static_cast<const char*>(a.storage_data);
  const char* second = static_cast<const char*>(b.storage_data);
  if (first == nullptr || second == nullptr) return a.storage != 0 && a.storage == b.storage;
  return first < second + b.storage_bytes && second < first + a.storage_bytes;
}

// Arguments the op will write, and whatever shares their memory, are read while they still hold their old value.
void tell_before(ThreadState& state, const Frame& frame) {
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    InputArgument& input = *state.inputs[i];
    bool overwritten = input.written;
    for (std::size_t j = frame.first_input; j < state.input_count && !overwritten; ++j) {
      const InputArgument& other = *state.inputs[j];
      overwritten = other.written && share_memory(other.described.tensor, input.described.tensor);
    }
    if (!overwritten) continue;
    api().op_input_before(frame.op, input.slot, input.described.get());
    input.told = true;
  }
}

bool is_input_storage(const ThreadState& state, const Frame& frame, std::uint64_t storage) {
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    if (state.inputs[i]->described.tensor.storage == storage) return true;
  }
  return false;
}

void tell_output(ThreadState& state, Frame& frame, const at::Tensor& tensor, std::uint32_t slot) {
  Described& out = state.scratch;
  out.describe(tensor, false);
  // Memory no argument had is new, whatever the schema says of aliases: `to` and `reshape` copy or not as they please.
  if (out.tensor.storage != 0 && !is_input_storage(state, frame, out.tensor.storage)) {
    api().op_wrote(frame.op, out.tensor.storage);
  }
  if (frame.info->uninitialised && out.tensor.skip == nullptr) {
    out.tensor.skip = "uninitialised memory";
    out.tensor.flags |= SONDE_TENSOR_UNINITIALISED;
  }
  if (frame.info->unfinished) {
    out.tensor.flags |= SONDE_TENSOR_FOREIGN;
    if (out.tensor.skip == nullptr) out.tensor.skip = "a collective, not yet complete when the call returned";
  }
  api().op_output(frame.op, slot, out.get());
}

void tell_outputs(ThreadState& state, Frame& frame, const std::vector<c10::IValue>& outputs, std::size_t count) {
  const std::size_t first = outputs.size() > count ? outputs.size() - count : 0;
  std::uint32_t slot = 0;
  for (std::size_t i = first; i < outputs.size(); ++i) {
    if (outputs[i].isTensor()) {
      if (outputs[i].toTensor().defined()) tell_output(state, frame, outputs[i].toTensor(), slot);
      ++slot;
    } else if (outputs[i].isList()) {
      for (const c10::IValue& element : outputs[i].toListRef()) {
        if (!element.isTensor()) break;
        if (element.toTensor().defined()) tell_output(state, frame, element.toTensor(), slot);
        ++slot;
      }
    }
  }
}

// `-> ()`: what the op wrote is its result. The handles are gone; the memory is checked to be where it was.
void tell_written_arguments(ThreadState& state, Frame& frame) {
  std::uint32_t slot = 0;
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    InputArgument& input = *state.inputs[i];
    if (!input.written) continue;
    if (input.described.still_valid()) api().op_output(frame.op, slot, input.described.get());
    ++slot;
  }
}

// A collective's results are among its arguments, and there when its work is complete.
void end_collective(ThreadState& state, Frame& frame, const std::vector<c10::IValue>& outputs) {
  std::vector<Described> results;
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    InputArgument& input = *state.inputs[i];
    if (input.result) {
      results.push_back(std::move(input.described));
    } else if (input.written) {
      api().wrote(input.described.tensor.storage);  // maybe: nobody's result
    }
  }
  complete_later(api(), frame.op, std::move(results), outputs);
}

void end_op(ThreadState& state, Frame& frame, const RecordFunction& fn) {
  const std::vector<c10::IValue>& outputs = fn.outputs();
  const bool failed = (outputs.empty() && !frame.info->returns_nothing) ||
                      std::uncaught_exceptions() > frame.exceptions;  // an op without results ends by throwing
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    const InputArgument& input = *state.inputs[i];
    if (!input.written && !frame.info->initialises) continue;
    if (has_aliases(input)) api().wrote(0);
    api().op_wrote(frame.op, input.described.tensor.storage);
  }
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    InputArgument& input = *state.inputs[i];
    if (input.told) continue;
    if (!input.described.still_valid()) input.described.tensor.skip = "its memory was released before it could be read";
    api().op_input(frame.op, input.slot, input.described.get());
  }
  if (failed) {
    // What it wrote before it threw is not its result.
  } else if (frame.info->collective) {
    return end_collective(state, frame, outputs);
  } else if (frame.info->returns_nothing) {
    tell_written_arguments(state, frame);
  } else {
    tell_outputs(state, frame, outputs, fn.num_outputs());
  }
  api().op_end(frame.op, failed ? 1 : 0);
}

// What autograd saves of an op's inside (a mask, a mean) is read by its backward: it comes from the op at depth 0.
void tell_inner_results(ThreadState& state, const Frame& frame, const RecordFunction& fn) {
  const std::vector<c10::IValue>& outputs = fn.outputs();
  const std::size_t count = fn.num_outputs();
  for (std::size_t i = outputs.size() > count ? outputs.size() - count : 0; i < outputs.size(); ++i) {
    if (!outputs[i].isTensor() || !outputs[i].toTensor().defined()) continue;
    state.scratch.describe(outputs[i].toTensor(), false);
    if (state.scratch.fresh) api().op_wrote(frame.op, state.scratch.tensor.storage);
  }
}

// What is known of memory that nobody can reach any more goes, here and in the engine.
void forget_dead_storages() {
  const std::vector<std::uint64_t> dead = purge_storages();
  if (!dead.empty()) api().forget(dead.data(), dead.size());
}

void drop_inputs(ThreadState& state, const Frame& frame) {
  while (state.input_count > frame.first_input) state.inputs[--state.input_count]->described.alive.reset();
}

bool autocast_runs() { return !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU); }

bool any_requires_grad(const ThreadState& state, const Frame& frame) {
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    if (state.inputs[i]->described.requires_grad) return true;
  }
  return false;
}

void start_op(ThreadState& state, const RecordFunction& fn, const OpInfo& info) {
  if (info.autocast_wraps && autocast_runs()) return;  // it casts, then calls itself: that call is the computation
  Frame frame = frame_of(FrameKind::op, fn);
  frame.info = &info;
  frame.first_input = state.input_count;
  frame.exceptions = std::uncaught_exceptions();
  if (!info.ignored) {
    const Place place = place_of(state, info.op_type.c_str(), info.number);
    frame.site = place.site;
    if (fn.seqNr() >= 0) owners_of(state).set(fn.seqNr(), place.site);
    const c10::ArrayRef<const c10::IValue> values = arguments_of(fn);
    if (!g_root_seen.load(std::memory_order_relaxed) && at::GradMode::is_enabled()) {
      collect_inputs(state, info, values);
      if (any_requires_grad(state, frame) && bare_training(state)) {
        api().autograd_seen();
        set_capture();
      }
      drop_inputs(state, frame);
    }
    const std::uint64_t attributes = info.has_attributes ? attributes_hash(info, values) : 0;
    const unsigned wanted = api().op_begin(place.site, place.graph, attributes, &frame.op);
    if (wanted != 0) {
      if ((wanted & SONDE_WANT_ATTRIBUTES) != 0) tell_attributes(api(), frame.op, info, values);
      collect_inputs(state, info, values);
      if (info.writes) tell_before(state, frame);
    } else if (info.writes) {
      tell_unrecorded_writes(state, fn, info, nullptr);
    }
  }
  state.frames.push_back(std::move(frame));
}

// A custom autograd.Function announces itself by name only; its backward node finds its forward through this.
void start_range(ThreadState& state, const RecordFunction& fn) {
  constexpr std::string_view kWrapper = "autograd::engine::evaluate_function: ";
  const std::string_view name = fn.name();
  if (name.substr(0, kWrapper.size()) == kWrapper) {
    Frame frame = frame_of(FrameKind::wrapper, fn);
    frame.mark = current_frame();
    frame.site = site_of_current_node();  // hooks run before the node itself
    state.frames.push_back(std::move(frame));
    return;
  }
  if (fn.seqNr() < 0 || name.find(':') != std::string_view::npos || name.find(' ') != std::string_view::npos) return;
  const Place place = place_of(state, fn.name(), std::hash<std::string_view>{}(name));
  owners_of(state).set(fn.seqNr(), place.site);
}

void start_node(ThreadState& state, const RecordFunction& fn) {
  Frame frame = frame_of(FrameKind::node, fn);
  frame.mark = current_frame();
  const bool wrapped = !state.frames.empty() && state.frames.back().kind == FrameKind::wrapper;
  if (fn.seqNr() >= 0) {
    frame.site = sequence_owners(fn.forwardThreadId()).get(fn.seqNr());
    // What the engine does after the node, inside the wrapper (bias gradients are summed there), belongs to it too.
    if (wrapped) state.frames.back().site = frame.site;
  } else if (wrapped) {
    frame.site = state.frames.back().site;  // a parameter's gradient is added up
  }
  state.frames.push_back(std::move(frame));
}

void start_event(ThreadState& state, const RecordFunction& fn) {
  if (fn.scope() == RecordScope::BACKWARD_FUNCTION) {
    start_node(state, fn);
    return;
  }
  const bool nested = !state.frames.empty() && state.frames.back().kind == FrameKind::op;
  if (nested) {
    // The last event that started with a sequence number owns its backward node; the op at depth 0 names it.
    if (fn.seqNr() >= 0) owners_of(state).set(fn.seqNr(), state.frames.back().site);
    if (std::strncmp(fn.name(), "autograd::engine::", 18) == 0) start_range(state, fn);
    const OpInfo* inner = op_info(fn);
    if (inner != nullptr && inner->writes && state.frames.back().op != nullptr) {
      tell_unrecorded_writes(state, fn, *inner, state.frames.back().op);
    }
    return;
  }
  if (const OpInfo* info = op_info(fn)) {
    start_op(state, fn, *info);
  } else {
    start_range(state, fn);
  }
}

std::unique_ptr<at::ObserverContext> on_start(const RecordFunction& fn) {
  if (g_inert.load(std::memory_order_relaxed)) return nullptr;
  ThreadState& state = thread_state();
  if (state.busy || inside_collective_thread()) return nullptr;
  const std::size_t inputs = state.input_count;
  try {
    start_event(state, fn);
  } catch (...) {  // PyTorch would print it; the op goes by unseen, the next one does not
    state.busy = false;
    state.input_count = inputs;
  }
  return nullptr;
}

void on_end(const RecordFunction& fn, at::ObserverContext*) {
  ThreadState& state = thread_state();
  if (state.frames.empty()) return;
  Frame& frame = state.frames.back();
  if (frame.fn != &fn) {
    const bool saved = frame.kind == FrameKind::op && frame.op != nullptr && fn.seqNr() >= 0 && !state.busy;
    if (saved && !g_inert.load(std::memory_order_relaxed)) tell_inner_results(state, frame, fn);
    return;
  }
  if (frame.kind == FrameKind::op) {
    try {
      if (frame.op != nullptr) end_op(state, frame, fn);  // also when another thread ends the session meanwhile
    } catch (...) {                                       // the frame must go in any case, or nothing after it is seen
      api().op_end(frame.op, 1);
    }
    drop_inputs(state, frame);
    if (purge_is_due()) forget_dead_storages();
  }
  state.frames.pop_back();
}

// --- optimizer boundaries (always on) --------------------------------------------------------------------------------

std::unique_ptr<at::ObserverContext> on_user_start(const RecordFunction& fn) {
  if (g_inert.load(std::memory_order_relaxed)) return nullptr;
  constexpr std::string_view kStep = "Optimizer.step#", kZero = "Optimizer.zero_grad#";
  const std::string_view name = fn.name();
  const bool step = name.substr(0, kStep.size()) == kStep;
  if (!step && name.substr(0, kZero.size()) != kZero) return nullptr;
  ThreadState& state = thread_state();
  Frame frame = frame_of(FrameKind::optimizer, fn);
  std::string_view type = name.substr(step ? kStep.size() : kZero.size());
  type = type.substr(0, type.rfind('.'));
  frame.scope = "optimizer-" + std::string(type);
  frame.outermost_step = step && state.optimizer_depth == 0;
  if (frame.outermost_step) state.step_returned = false;
  if (step) ++state.optimizer_depth;
  state.frames.push_back(std::move(frame));
  return nullptr;
}

void on_user_end(const RecordFunction& fn, at::ObserverContext*) {
  ThreadState& state = thread_state();
  if (state.frames.empty() || state.frames.back().fn != &fn) return;
  const bool step_ended = state.frames.back().outermost_step;
  const bool is_step = std::strncmp(fn.name(), "Optimizer.step#", 15) == 0;
  state.frames.pop_back();
  if (is_step && state.optimizer_depth > 0) --state.optimizer_depth;
  if (!step_ended || !state.step_returned || g_inert.load(std::memory_order_relaxed)) return;
  api().optimizer_end();
  set_capture();
  forget_dead_storages();
  purge_collectives();
}

void forked_child() {
  // Callbacks and tables came along; the writer thread and who held a lock did not.
  g_inert.store(true);
  g_switch.store(new std::mutex);
  forget_collectives();
  if (g_setup.load() != nullptr) api().forked_child();
}

void register_callbacks() {
  pthread_atfork(nullptr, nullptr, forked_child);
  g_operators = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                          .needsInputs(true)
                                          .needsOutputs(true)
                                          .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION}));
  g_users =
      at::addGlobalCallback(at::RecordFunctionCallback(on_user_start, on_user_end).scopes({RecordScope::USER_SCOPE}));
  g_on = true;
}

void switch_operators(bool on) {
  if (g_on.exchange(on) == on) return;
  if (on) {
    at::reenableCallback(g_operators);
  } else {
    at::disableCallback(g_operators);
    forget_dead_storages();
  }
}

}  // namespace

void install(const Setup& told) {
  {
    const std::lock_guard lock(*g_switch.load());
    const bool first = g_setup.load() == nullptr;
    g_setup.store(new Setup(told), std::memory_order_release);
    if (first) {
      register_callbacks();
    } else {
      at::reenableCallback(g_users);
    }
    g_texts_told->clear();
    g_root_seen = false;
    forget_nodes();
    g_inert = false;
  }
  forget_scopes();
  set_capture();
}

void uninstall() {
  if (g_setup.load() == nullptr) return;
  {
    const std::lock_guard lock(*g_switch.load());
    if (g_inert.exchange(true)) return;
    switch_operators(false);
    at::disableCallback(g_users);
  }
  end_collectives();
}

// Asks again what the clock says: another thread may have moved it since.
void set_capture() {
  const std::lock_guard lock(*g_switch.load());
  if (!g_inert) switch_operators(api().capture() == SONDE_CAPTURE_ON);
}

bool capturing() { return g_on.load() && !g_inert.load(); }

void root_forward(PyObject* module, bool has_parameters, bool optimizer_alive, bool may_train_without_grad) {
  if (g_inert) return;
  ThreadState& state = thread_state();
  int depth = 0;
  if (outermost_module(setup().frames, depth) != module) return;
  const bool grad = at::GradMode::is_enabled() || (may_train_without_grad && state.grad_outside);
  const bool trains = grad && !c10::InferenceMode::is_enabled();
  if (has_parameters) {
    g_root_seen = true;
    state.current_root = module;
    state.current_root_trains = trains;
  }
  forget_dead_storages();
  api().root_forward(has_parameters ? 1 : 0, trains ? 1 : 0, optimizer_alive ? 1 : 0);
  set_capture();
}

void step_returned() { thread_state().step_returned = true; }

void forget_scopes() { g_generation.fetch_add(1); }

}  // namespace sonde_torch
