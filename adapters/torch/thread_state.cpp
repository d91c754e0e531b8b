#include "thread_state.h"

#include <atomic>

namespace sonde_torch {
namespace {

std::atomic<int> g_trials{0};
std::atomic<int> g_left_out{0};

}  // namespace

Frame frame_of(FrameKind kind, const at::RecordFunction& fn) {
  Frame frame;
  frame.kind = kind;
  frame.fn = &fn;
  return frame;
}

ThreadState::ThreadState() = default;
ThreadState::~ThreadState() = default;

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

void change_trials(int by) { g_trials += by; }
bool in_trial() { return g_trials.load(std::memory_order_relaxed) > 0; }
void change_left_out(int by) { g_left_out += by; }
bool is_left_out() { return g_left_out.load(std::memory_order_relaxed) > 0; }

SequenceOwners& owners_of(ThreadState& state) {
  if (state.owners == nullptr) state.owners = sequence_owners(at::RecordFunction::currentThreadId());
  return *state.owners;
}

}  // namespace sonde_torch
