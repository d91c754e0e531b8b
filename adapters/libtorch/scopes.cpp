#include "scopes.h"

#include <functional>
#include <unordered_set>

#include "capture.h"
#include "hash.h"
#include "names.h"
#include "recording.h"
#include "setup.h"
#include "synchronized.h"
#include "thread_state.h"

namespace sonde_torch {
namespace {

// The same address for the same name: it stands for the model that the outermost scope is.
const void* identity_of(const std::string& name) {
  static auto* names = new Synchronized<std::unordered_set<std::string>>;
  return &*names->lock()->insert(name).first;
}

std::uint64_t hash_of_scopes(const std::vector<OpenScope>& open) {
  std::uint64_t hash = open.empty() ? 0 : 0x082EFA98EC4E6C89ULL;
  for (const OpenScope& scope : open) {
    hash = mix(mix(hash, std::hash<std::string>{}(scope.name)), std::hash<std::string>{}(scope.file));
    hash = mix(hash, scope.line);
  }
  return hash;
}

}  // namespace

Scopes& scopes() {
  thread_local Scopes mine;
  return mine;
}

bool enter_root(const void* identity) {
  ThreadState& state = thread_state();
  if (is_inert() || state.current_root != nullptr || state.optimizer_depth > 0) return false;
  look_after_step();
  root_forward(identity, {.has_parameters = true,
                          .optimizer_alive = optimizer_was_made(),
                          .may_train_without_grad = false,
                          .trained = true,
                          .evaluates = false});
  state.current_root = identity;
  if (capturing()) report_names();
  return true;
}

void leave_root() { thread_state().current_root = nullptr; }

void open_scope(const char* name, const char* file, std::uint32_t line, const char* function) {
  Scopes& here = scopes();
  here.open.push_back({name, file, function, line});
  here.hash = hash_of_scopes(here.open);
  if (here.open.size() == 1) enter_root(identity_of(here.open.front().name));
}

void close_scope() {
  Scopes& here = scopes();
  if (here.open.empty()) return;
  const bool outermost = here.open.size() == 1;
  if (outermost && thread_state().current_root == identity_of(here.open.front().name)) leave_root();
  here.open.pop_back();
  here.hash = hash_of_scopes(here.open);
}

RootCall::RootCall(const void* identity) : outermost_(enter_root(identity)) {}

RootCall::~RootCall() {
  if (outermost_) leave_root();
}

}  // namespace sonde_torch
