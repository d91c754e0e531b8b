// The activity of one thread: operators, autograd nodes and optimizer steps in flight, and the operators' arguments.
#pragma once

#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device.h"
#include "ops.h"
#include "process_groups.h"
#include "program.h"
#include "sites.h"
#include "sonde/sonde.h"
#include "tensors.h"
#include "threads.h"

namespace sonde_torch {

struct CompiledRun;

enum class FrameKind : std::uint8_t { op, node, wrapper, optimizer };

// An operator whose arguments wrap other tensors: it computes nothing itself, and the operators that it calls are recorded
// in its place. Shared by those of them that are on wrappers, too.
struct Group {
  std::uint32_t site = 0;
  sonde_graph graph = SONDE_GRAPH_TRAINING;
  std::string scope;              // its name among scopes (`linear-DTensor`); empty: none
  std::string layouts;            // how the DTensors among its arguments are distributed; empty: there are none
  std::uint64_t key = 0;          // for the sites of the operators that it calls: a hash of site and scope
  std::uint64_t layouts_key = 0;  // a hash of layouts; 0: there are none
};

// One event in flight that is of interest. Nested operators have none.
struct Frame {
  FrameKind kind = FrameKind::op;
  const at::RecordFunction* fn = nullptr;
  std::uint32_t site = 0;    // op: its site; node, wrapper: the forward op's site
  FrameMark mark = nullptr;  // node: the Python frame it was entered from
  bool leaf = false;         // node, wrapper: adds up the gradient of a parameter, which no forward op made
  const OpInfo* info = nullptr;
  sonde_op* op = nullptr;
  std::size_t first_input = 0;  // op: its arguments are [first_input, input_count) of the thread's
  int exceptions = 0;           // op, node: in flight when it began
  unsigned wanted = 0;          // op: the answer of op_begin
  bool looked = false;          // op: its outputs have been looked at
  bool quiet = false;           // op: the operators that it calls are not observed
  // op: set if its arguments wrap other tensors. Null: the operators that it calls are its details.
  std::shared_ptr<const Group> group;
  std::vector<LocalPart> parts;          // op: of the DTensors among its arguments
  std::size_t next_part = 0;             // its operators read them in order, as a rule
  std::unique_ptr<EarlyReturn> early;    // op: its results in the host's memory may come later
  bool outermost_step = false;           // optimizer: Optimizer.step, not nested
  GroupCall call{};                      // op: of a collective
  std::string scope;                     // optimizer: `optimizer-SGD`
  std::vector<TensorDescriptor> inputs;  // node: its arguments, if the plan wants operators that throw
};

Frame frame_of(FrameKind kind, const at::RecordFunction& fn);

struct InputArgument {
  TensorDescriptor descriptor;
  std::uint32_t slot = 0;
  bool written = false, only_written = false;
  bool result = false;
  bool reported = false;  // reported before the kernel
};

// A custom autograd.Function whose forward runs: it is not an operator, but it may raise.
struct FunctionCall {
  const at::RecordFunction* fn = nullptr;
  std::uint32_t site = 0;
  sonde_graph graph = SONDE_GRAPH_TRAINING;
  std::vector<TensorDescriptor> inputs;
};

// The facts that a site was made from.
struct SitePlace {
  SiteText text;
  std::uint32_t phase = 0, forward_site = 0;
  bool flagged = false;
};

struct ThreadState {
  ThreadState();
  ~ThreadState();
  std::vector<Frame> frames;
  std::vector<std::unique_ptr<InputArgument>> inputs;  // a reused stack; the last op in flight owns its end
  std::size_t input_count = 0;
  KnownSites sites;
  std::unordered_map<std::uint64_t, std::uint32_t> forwards;  // (module or line, op type) -> its forward site
  std::unordered_set<std::uint32_t> of_optimizer;             // sites of a compiled Optimizer.step
  std::unordered_map<std::uint32_t, SitePlace> groups;        // by the site of an operator on wrappers
  std::unordered_map<std::uint64_t, std::shared_ptr<const Group>> known_groups;
  SitePlace made;  // of the site that was made last
  std::uint64_t generation = 0;
  const void* current_root = nullptr;  // the root whose forward began last on this thread
  bool current_root_trains = true;
  const void* package = nullptr;  // the package of compiled code that is the current root
  bool grad_outside = false;      // gradients were on at the last op outside every module, or the optimizer's last call
  int optimizer_depth = 0;
  int dump_scopes = 0;       // open ones of sonde.dump_scope()
  bool catches = false;      // the plan records operators that throw
  bool failed_last = false;  // an operator has thrown, and none has begun since
  std::vector<FunctionCall> functions;
  bool step_returned = false;  // the outermost Optimizer.step has not raised
  std::uint64_t asked_bare = 0;
  bool busy = false;  // inside our own slow path
  int tracing = 0;    // a compiler runs on this thread: the operators that it calls are not the program's
  std::shared_ptr<CompiledRun> compiled;  // the innermost compiled graph that runs; its type is in compiled.cpp
  TensorDescriptor scratch;
  std::shared_ptr<SequenceOwners> owners;
};

ThreadState& thread_state();                    // of this thread
SequenceOwners& owners_of(ThreadState& state);  // of this thread's operators

// A trial run of the host begins (1) or ends (-1), on all threads: its operators are recorded without values.
void change_trials(int by);
bool in_trial();

// A run that is not to be recorded begins (1) or ends (-1), on all threads. What it writes is known as written.
void change_left_out(int by);
bool is_left_out();

}  // namespace sonde_torch
