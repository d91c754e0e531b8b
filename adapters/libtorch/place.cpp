// place.h for a program without Python: the scopes that it has opened, TorchScript's own places, and the modules whose
// parameters an operator reads.
#include "place.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "capture.h"
#include "hash.h"
#include "names.h"
#include "op_tensors.h"
#include "scopes.h"
#include "script.h"
#include "setup.h"

namespace sonde_torch {
namespace {

std::atomic<std::uint64_t> g_generation{1};

void fresh_tables(ThreadState& state) {
  const std::uint64_t generation = g_generation.load(std::memory_order_acquire);
  if (state.generation == generation) return;
  state.generation = generation;
  state.sites.clear();
}

// The site of `key`; `describe(text)` fills a new one.
template <typename Describe>
std::uint32_t cached_site(ThreadState& state, std::uint64_t key, const char* op_type, std::uint32_t phase,
                          std::uint32_t forward_site, Describe describe) {
  if (const std::uint32_t known = state.sites.find(key); known != 0) return known;
  state.busy = true;
  SiteText text;
  describe(text);
  if (phase == SONDE_PHASE_FORWARD && text.scope.empty()) phase = SONDE_PHASE_OUTSIDE;
  const std::uint32_t site = intern(op_type, phase, forward_site, text, false);
  state.busy = false;
  state.sites.add(key, site);
  return site;
}

// The module of the first parameter among the arguments.
const std::string* module_of_arguments(const at::RecordFunction& fn) {
  for (const c10::IValue& value : arguments_of(fn)) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    if (const std::string* module = module_of(value.toTensor())) return module;
  }
  return nullptr;
}

// Names and lines of the open scopes, innermost line first.
void describe_scopes(const Scopes& here, SiteText& text) {
  for (const OpenScope& open : here.open) text.scope += (text.scope.empty() ? "" : "/") + open.name;
  for (auto open = here.open.rbegin(); open != here.open.rend(); ++open) {
    if (open->line > 0) text.trace.push_back({open->file, open->function, static_cast<int>(open->line)});
  }
}

sonde_graph graph_of(const ThreadState& state) {
  if (state.current_root != nullptr) {
    return state.current_root_trains ? SONDE_GRAPH_TRAINING : SONDE_GRAPH_EVALUATION;
  }
  return at::GradMode::is_enabled() ? SONDE_GRAPH_OUTSIDE_GRAD : SONDE_GRAPH_OUTSIDE_NO_GRAD;
}

Place place_in_backward(ThreadState& state, const Frame& node, const char* op_type, std::uint64_t number) {
  const std::uint64_t key = mix(mix(0x2001, number), node.site);
  const std::uint32_t site = cached_site(state, key, op_type, SONDE_PHASE_BACKWARD, node.site, [](SiteText&) {});
  return {site, SONDE_GRAPH_TRAINING};
}

Place place_in_optimizer(ThreadState& state, const Frame& step, const char* op_type, std::uint64_t number) {
  const std::uint64_t key = mix(mix(0x2002, number), std::hash<std::string>{}(step.scope));
  const std::uint32_t site =
      cached_site(state, key, op_type, SONDE_PHASE_OPTIMIZER, 0, [&](SiteText& text) { text.scope = step.scope; });
  return {site, SONDE_GRAPH_TRAINING};
}

Place place_forward(ThreadState& state, const at::RecordFunction& fn, const char* op_type, std::uint64_t number) {
  const Scopes& here = scopes();
  const ScriptPlace script = script_place();
  const std::string* module = here.hash == 0 && script.hash == 0 ? module_of_arguments(fn) : nullptr;
  std::uint64_t key = mix(mix(mix(0x2003, number), here.hash), script.hash);
  key = mix(key, reinterpret_cast<std::uint64_t>(module));
  key = mix(key, std::hash<std::string>{}(here.script_root));
  Place place;
  place.graph = graph_of(state);
  place.site = cached_site(state, key, op_type, SONDE_PHASE_FORWARD, 0, [&](SiteText& text) {
    if (script.hash != 0) text.trace = script_lines();
    describe_scopes(here, text);
    if (module != nullptr) text.scope = *module;
    if (script.hash == 0) return;
    const std::string root = here.script_root.empty() ? script_class(script) : here.script_root;
    if (!root.empty()) text.scope += (text.scope.empty() ? "" : "/") + root;
    if (const std::string below = script_scope(script); !below.empty()) {
      text.scope += (text.scope.empty() ? "" : "/") + below;
    }
  });
  return place;
}

}  // namespace

Place place_of(ThreadState& state, const at::RecordFunction& fn, const char* op_type, std::uint64_t number) {
  fresh_tables(state);
  const Frame* around = state.frames.empty() ? nullptr : &state.frames.back();
  if (around != nullptr && around->kind != FrameKind::optimizer) {
    return place_in_backward(state, *around, op_type, number);
  }
  // The closure of a step runs with gradients, the optimizer's own arithmetic does not.
  if (around != nullptr && !at::GradMode::is_enabled()) return place_in_optimizer(state, *around, op_type, number);
  return place_forward(state, fn, op_type, number);
}

std::uint32_t site_of_node(ThreadState& state, const char* name, std::uint32_t forward_site) {
  const std::uint64_t key = mix(mix(0x2004, std::hash<std::string_view>{}(name)), forward_site);
  return cached_site(state, key, name, SONDE_PHASE_BACKWARD, forward_site, [](SiteText&) {});
}

// Nothing announces a forward, so steps are counted from the first operator with a gradient history.
bool bare_training(ThreadState&) {
  api().autograd_started();
  recording()->root_seen = true;  // it needs to be asked no more
  set_capture();
  report_names();
  return false;
}

// A C++ program does not list its modules: what has run until it is asked are steps.
bool parameters_exist(ThreadState&) { return false; }

sonde_graph package_begins(ThreadState& state, const void* identity) {
  const at::NoGradGuard without_gradients;  // a package has none, so that its call is not a training's
  if (enter_root(identity)) state.package = identity;
  return graph_of(state);
}

std::string scope_of_callers() {
  SiteText text;
  describe_scopes(scopes(), text);
  return text.scope;
}

void forget_scopes() { g_generation.fetch_add(1); }

void forget_source_texts() {}

}  // namespace sonde_torch
