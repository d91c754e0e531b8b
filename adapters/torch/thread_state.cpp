#include "thread_state.h"

namespace sonde_torch {

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

SequenceOwners& owners_of(ThreadState& state) {
  if (state.owners == nullptr) state.owners = sequence_owners(at::RecordFunction::currentThreadId());
  return *state.owners;
}

}  // namespace sonde_torch
