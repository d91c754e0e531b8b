#include "capture.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attributes.h"
#include "backward.h"
#include "callers.h"
#include "collectives.h"
#include "data_sources.h"
#include "device.h"
#include "groups.h"
#include "hash.h"
#include "op_tensors.h"
#include "ops.h"
#include "place.h"
#include "pool.h"
#include "program.h"
#include "synchronized.h"
#include "tensors.h"
#include "thread_state.h"
#include "watched.h"

namespace sonde_torch {
namespace {

using at::RecordFunction;
using at::RecordScope;

// The two callbacks, registered with the first session.
struct Callbacks {
  at::CallbackHandle operators = 0, users = 0;
  bool registered = false, users_on = false;
};
Synchronized<Callbacks>& callbacks() {
  static auto* made = new Synchronized<Callbacks>;  // at the first session, which may begin before our initialisers
  return *made;
}
// The callback of operators is enabled. Changed with the lock of the callbacks.
constinit std::atomic<bool> g_sees_operators{false};

bool has_key_of(const c10::IValue& value, c10::DispatchKeySet keys) {
  if (value.isTensor())
    return value.toTensor().defined() && value.toTensor().unsafeGetTensorImpl()->key_set().has_any(keys);
  if (!value.isList()) return false;
  const auto elements = value.toListRef();
  return std::any_of(elements.begin(), elements.end(), [&](const c10::IValue& one) { return has_key_of(one, keys); });
}

// Autocast casts its arguments, then it calls itself: the inner call is the computation.
bool is_wrapped(const OpInfo& info, const RecordFunction& fn) {
  const c10::DispatchKeySet on = info.autocast - c10::impl::tls_local_dispatch_key_set().excluded_;
  if (on.empty()) return false;
  const auto values = arguments_of(fn);
  return std::any_of(values.begin(), values.end(), [&](const c10::IValue& value) { return has_key_of(value, on); });
}

void report_start(ThreadState& state, const Frame& frame, c10::ArrayRef<const c10::IValue> values, bool with_attributes,
                  std::string_view caller) {
  try {
    const Group* group = group_around(state);
    if (with_attributes)
      report_attributes(api(), frame.op, *frame.info, values, group != nullptr ? group->layouts : "", caller);
    collect_inputs(state, *frame.info, values);
    report_before(state, frame);
  } catch (...) {
    api().op_end(frame.op, 1);  // an op that has begun must end: later ops wait for it
    throw;
  }
}

// Nobody else observes operators (the profiler does).
bool observes_alone() {
  const auto callbacks = at::getStepCallbacksUnlessEmpty(RecordScope::FUNCTION);
  return callbacks.has_value() && callbacks->callbacks_.size() == 1;
}

// Whether nothing would be learnt from the operators that this one calls: they make no nodes for backward, and write
// only what its schema says. Each would cost half a microsecond, and so does the switch, so an operator that calls none is
// left alone. Python code inside an operator may write anything.
bool can_be_quiet(const OpInfo& info) {
  return info.schema_says_all && info.calls_operators.load(std::memory_order_relaxed) && !at::GradMode::is_enabled() &&
         !c10::impl::TorchDispatchModeTLS::any_modes_set() && observes_alone();
}

void start_op(ThreadState& state, const RecordFunction& fn, const OpInfo& info) {
  if (is_wrapped(info, fn)) return;
  Frame frame = frame_of(FrameKind::op, fn);
  frame.info = &info;
  frame.first_input = state.input_count;
  frame.exceptions = std::uncaught_exceptions();
  if (!info.ignored && !is_traced()) {
    const c10::ArrayRef<const c10::IValue> values = arguments_of(fn);
    const Place place = place_in_group(state, frame, fn, values);
    frame.site = place.site;
    if (fn.seqNr() >= 0) owners_of(state).set(fn.seqNr(), place.site);
    if (!recording()->root_seen.load(std::memory_order_relaxed) && at::GradMode::is_enabled()) {
      collect_inputs(state, info, values);
      if (any_requires_grad(state, frame) && bare_training(state)) {
        api().autograd_started();
        set_capture();
      }
      drop_inputs(state, frame);
    }
    std::uint64_t attributes = info.has_attributes ? attributes_hash(info, values) : 0;
    const Group* group = group_around(state);
    if (group != nullptr && group->layouts_key != 0) attributes = mix(mix(attributes, info.number), group->layouts_key);
    const bool is_collective = info.collective || info.unfinished;
    const std::string caller = is_collective ? caller_of(values) : std::string();
    if (!caller.empty()) attributes = mix(attributes, hash_of(caller));
    if (is_collective) frame.call = begin_call(info, place.graph, values);
    frame.early = early_return(info, values);
    const bool asks = frame.group == nullptr && !is_left_out();
    const unsigned wanted = asks ? api().op_begin(place.site, place.graph, attributes, &frame.op) : 0;
    frame.wanted = wanted;
    state.catches = (wanted & SONDE_WANT_FAILURE) != 0;
    state.failed_last = false;
    if ((wanted & SONDE_WANT_MODULES) != 0) {
      api().modules_exist(parameters_exist(state) ? 1 : 0);
      set_capture();
    }
    if (wanted != 0) {
      report_start(state, frame, values, (wanted & SONDE_WANT_ATTRIBUTES) != 0, caller);
    } else if (info.writes && frame.group == nullptr) {
      report_unrecorded_writes(state, fn, info, nullptr);
    }
  }
  frame.quiet = frame.op != nullptr && can_be_quiet(info);
  if (frame.quiet) at::enableRecordFunction(false);
  state.frames.push_back(std::move(frame));
}

// The node of a part of a TorchScript module that has a backward of its own. No operator has its sequence number: an
// earlier one that made no node may have had it.
bool is_script_graph(std::string_view node) {
  return node.find("DifferentiableGraphBackward") != std::string_view::npos;
}

// A custom autograd.Function reports only its name; its backward node finds its forward through this entry.
void start_range(ThreadState& state, const RecordFunction& fn) {
  constexpr std::string_view kWrapper = "autograd::engine::evaluate_function: ";
  const std::string_view name = fn.name();
  if (name.substr(0, kWrapper.size()) == kWrapper) {
    Frame frame = frame_of(FrameKind::wrapper, fn);
    frame.mark = current_frame();
    frame.leaf = name.ends_with("::AccumulateGrad");
    frame.site = site_of_current_node(is_script_graph(name));  // hooks run before the node itself
    state.frames.push_back(std::move(frame));
    return;
  }
  if (fn.seqNr() < 0 || name.find(':') != std::string_view::npos || name.find(' ') != std::string_view::npos) return;
  const Place place = place_of(state, fn, fn.name(), std::hash<std::string_view>{}(name));
  owners_of(state).set(fn.seqNr(), place.site);
  if (!state.catches) return;
  constexpr std::size_t kMostNested = 256;
  if (state.functions.size() == kMostNested) state.functions.clear();  // their ends were not reported
  state.functions.push_back({&fn, place.site, place.graph, described_tensors(fn.inputs())});
}

void start_node(ThreadState& state, const RecordFunction& fn) {
  Frame frame = frame_of(FrameKind::node, fn);
  frame.mark = current_frame();
  const bool wrapped = !state.frames.empty() && state.frames.back().kind == FrameKind::wrapper;
  if (fn.seqNr() >= 0) {
    frame.site = is_script_graph(fn.name()) ? 0 : site_of_sequence(fn.forwardThreadId(), fn.seqNr());
    // The engine's work after the node, inside the wrapper (bias gradients are summed there), belongs to it too.
    if (wrapped) state.frames.back().site = frame.site;
  } else if (wrapped) {
    frame.site = state.frames.back().site;  // a parameter's gradient is added up
    frame.leaf = state.frames.back().leaf;
  }
  frame.exceptions = std::uncaught_exceptions();
  if (state.catches) frame.inputs = described_tensors(fn.inputs());
  state.frames.push_back(std::move(frame));
}

void start_event(ThreadState& state, const RecordFunction& fn) {
  if (fn.scope() == RecordScope::BACKWARD_FUNCTION) {
    start_node(state, fn);
    return;
  }
  const bool inside = !state.frames.empty() && state.frames.back().kind == FrameKind::op;
  if (inside && group_around(state) == nullptr) {
    // The last event that started with a sequence number owns its backward node; the op at depth 0 names it.
    if (fn.seqNr() >= 0) owners_of(state).set(fn.seqNr(), state.frames.back().site);
    const OpInfo* inner = op_info(fn);
    if (inner == nullptr) {
      if (std::strncmp(fn.name(), "autograd::engine::", 18) == 0) start_range(state, fn);
      return;
    }
    state.frames.back().info->calls_operators.store(true, std::memory_order_relaxed);
    if (inner->writes && state.frames.back().op != nullptr) {
      report_unrecorded_writes(state, fn, *inner, state.frames.back().op);
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
  if (is_inert() && !(awaits_model() && first_model_runs(fn))) return nullptr;
  ThreadState& state = thread_state();
  if (state.busy || state.tracing > 0 || state.compiled != nullptr || inside_collective_thread()) return nullptr;
  const std::size_t inputs = state.input_count;
  try {
    start_event(state, fn);
  } catch (...) {  // PyTorch would print it; only this op is lost
    state.busy = false;
    state.input_count = inputs;
  }
  return nullptr;
}

// The forward of a custom autograd.Function has raised, and no operator inside did.
void end_function(ThreadState& state, const RecordFunction& fn) {
  if (state.functions.back().fn != &fn) return;
  FunctionCall call = std::move(state.functions.back());
  state.functions.pop_back();
  if (raises_in_python() && !state.failed_last && !is_inert()) {
    report_failure(state, call.site, call.graph, call.inputs);
  }
}

// A node of backward has thrown, and no operator inside did: usually the Python code of a custom autograd.Function.
void end_node(ThreadState& state, Frame& frame, const RecordFunction& fn) {
  const bool failed = std::uncaught_exceptions() > frame.exceptions;
  if (!failed || !state.catches || state.failed_last || is_inert()) return;
  const std::uint32_t site = site_of_node(state, fn.name(), frame.site);
  report_failure(state, site, SONDE_GRAPH_TRAINING, frame.inputs);
}

void on_end(const RecordFunction& fn, at::ObserverContext*) {
  ThreadState& state = thread_state();
  if (!state.functions.empty()) {
    try {
      end_function(state, fn);
    } catch (...) {  // as below: the user's own error continues
    }
  }
  if (state.frames.empty()) return;
  Frame& frame = state.frames.back();
  if (frame.fn != &fn) {
    const bool saved = frame.kind == FrameKind::op && frame.op != nullptr && fn.seqNr() >= 0 && !state.busy;
    if (saved && !is_inert()) report_inner_results(state, frame, fn);
    return;
  }
  if (frame.kind == FrameKind::op) {
    if (frame.quiet) at::enableRecordFunction(true);
    try {
      if (frame.early) results_come_later(*frame.early, results_of(fn));
      if (frame.op != nullptr) {
        end_op(state, frame, fn);  // also when another thread ends the session meanwhile
      } else if (frame.info->uninitialised && !is_inert()) {
        report_allocated(state, fn);
      }
    } catch (...) {  // the frame must be removed in any case, otherwise later events are lost
      if (frame.op != nullptr) api().op_end(frame.op, 1);
    }
    drop_inputs(state, frame);
    poll_devices();
    if (purge_is_due()) forget_dead_storages();
  } else if (frame.kind == FrameKind::node && !frame.inputs.empty()) {
    try {
      end_node(state, frame, fn);
    } catch (...) {
    }
  }
  state.frames.pop_back();
}

// --- optimizer boundaries (always on) --------------------------------------------------------------------------------

std::unique_ptr<at::ObserverContext> on_user_start(const RecordFunction& fn) {
  if (is_inert() && !awaits_model()) return nullptr;
  constexpr std::string_view kStep = "Optimizer.step#", kZero = "Optimizer.zero_grad#";
  const std::string_view name = fn.name();
  const bool step = name.substr(0, kStep.size()) == kStep;
  if (!step && name.substr(0, kZero.size()) != kZero) return nullptr;
  if (is_inert() && !first_model_runs(fn)) return nullptr;
  ThreadState& state = thread_state();
  state.grad_outside = at::GradMode::is_enabled();  // before the optimizer turns gradients off
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
  if (!step_ended || !state.step_returned || is_inert()) return;
  api().optimizer_end();
  fetch_statistics();
  set_capture();
  if (g_sees_operators) forget_dead_storages();
  purge_collectives();
}

void forked_child() {
  // The child has the callbacks and tables, but not the writer thread and the owners of locks.
  set_inert(true);
  callbacks().unlock_in_forked_child();
  forget_collectives();
  forget_watched();
  forget_devices();
  forget_pool();
  if (recording() != nullptr) api().forked_child();
}

void register_in(Callbacks& callbacks) {
  callbacks.registered = callbacks.users_on = true;
  pthread_atfork(nullptr, nullptr, forked_child);
  callbacks.operators = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                                  .needsInputs(true)
                                                  .needsOutputs(true)
                                                  .scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION}));
  callbacks.users =
      at::addGlobalCallback(at::RecordFunctionCallback(on_user_start, on_user_end).scopes({RecordScope::USER_SCOPE}));
  g_sees_operators = true;
}

void switch_users(Callbacks& callbacks, bool on) {
  if (std::exchange(callbacks.users_on, on) == on) return;
  if (on) {
    at::reenableCallback(callbacks.users);
  } else {
    at::disableCallback(callbacks.users);
  }
}

void switch_operators(const Callbacks& callbacks, bool on) {
  if (g_sees_operators.exchange(on) == on) return;
  forget_dead_storages();  // not while operators are unobserved: it looks at every storage that was seen
  if (on) {
    at::reenableCallback(callbacks.operators);
  } else {
    at::disableCallback(callbacks.operators);
    fetch_statistics();
  }
}

}  // namespace

bool is_traced() {
  using Modes = c10::impl::TorchDispatchModeTLS;
  using Key = c10::impl::TorchDispatchModeKey;
  if (!Modes::any_modes_set()) return false;
  return Modes::get_mode(Key::FAKE).has_value() || Modes::get_mode(Key::PROXY).has_value() ||
         Modes::get_mode(Key::FUNCTIONAL).has_value();
}

void install(const Setup* setup) {
  {
    const auto known = callbacks().lock();
    const bool first = recording() == nullptr;
    set_recording(new Recording(setup));
    if (first) {
      lend_pool();
      lend_devices();
    }
    if (!known->registered) register_in(*known);
    switch_users(*known, true);
    forget_source_texts();
    forget_texts_of_data();
    forget_nodes();
    forget_watched();
    set_inert(false);
  }
  forget_scopes();
  set_capture();
}

void uninstall() {
  if (recording() == nullptr) return;
  {
    const auto known = callbacks().lock();
    if (set_inert(true)) return;
    switch_operators(*known, false);
    switch_users(*known, false);
  }
  end_collectives();
}

void await_model(bool awaits) {
  const auto known = callbacks().lock();
  if (!is_inert() || awaits_model() == awaits) return;
  set_awaits_model(awaits);
  if (awaits && !known->registered) register_in(*known);
  if (!known->registered) return;
  switch_operators(*known, awaits);
  switch_users(*known, awaits);
}

// Asks the clock again: another thread may have changed it.
void set_capture() {
  const auto known = callbacks().lock();
  if (!is_inert()) switch_operators(*known, api().capture() == SONDE_CAPTURE_ON);
}

void forget_dead_storages() {
  const std::vector<std::uint64_t> dead = purge_storages();
  if (!dead.empty() && recording() != nullptr) api().storages_freed(dead.data(), dead.size());
}

bool capturing() { return g_sees_operators && !is_inert(); }

bool root_forward(const void* module, const RootForward& forward) {
  if (is_inert()) return false;
  ThreadState& state = thread_state();
  const bool grad = at::GradMode::is_enabled() || (forward.may_train_without_grad && state.grad_outside);
  const bool trains = grad && !c10::InferenceMode::is_enabled();
  std::atomic<bool>& root_seen = recording()->root_seen;
  if (forward.has_parameters) root_seen = true;
  if (forward.has_parameters || !root_seen) {
    state.current_root = module;
    state.current_root_trains = trains;
  }
  if (g_sees_operators) forget_dead_storages();
  fetch_statistics();
  if (trains || !forward.has_parameters) {
    api().root_forward(forward.has_parameters ? 1 : 0, trains ? 1 : 0, forward.optimizer_alive ? 1 : 0);
  } else {
    sonde_quiet_forward quiet{};
    quiet.size = sizeof quiet;
    quiet.root = reinterpret_cast<std::uint64_t>(module);
    quiet.optimizer_alive = forward.optimizer_alive ? 1 : 0;
    quiet.trained = forward.trained ? 1 : 0;
    quiet.evaluates = forward.evaluates ? 1 : 0;
    api().quiet_forward(&quiet);
  }
  set_capture();
  return trains;
}

void step_returned() { thread_state().step_returned = true; }

}  // namespace sonde_torch
