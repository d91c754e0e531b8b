#include "collectives.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <iterator>
#include <list>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "leaked.h"
#include "process_groups.h"
#include "program.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

using c10::ivalue::Future;

constexpr const char* kIncomplete = "a collective, not yet complete when the call returned";
constexpr const char* kUnfinished = "a collective, not yet complete";
constexpr const char* kNeverComplete = "a collective that was not complete when recording ended";
constexpr const char* kNeverWaited = "a collective that nobody waited for";

enum class State : std::uint8_t { waiting, reading, done };

// One collective that has returned. The lock of the table guards `state`, `future`, and the number and the address of
// `outputs`, which other threads compare; the rest belongs to the thread that claimed it.
struct Pending {
  const struct sonde_api& api;
  sonde_op* op;
  std::vector<TensorDescriptor> outputs;
  State state = State::waiting;
  const Future* future = nullptr;   // not owned: while `waiting`, our callback in it keeps this from dangling
  const void* work = nullptr;       // of a work without a future: its address, only for comparison
  bool functional = false;          // complete when `wait_tensor` has returned
  std::vector<LateInput> inputs{};  // of a view of what a functional collective writes
  bool is_view() const { return !inputs.empty(); }
};
using PendingPtr = std::shared_ptr<Pending>;

using PendingList = std::list<PendingPtr>;

struct Table {
  Synchronized<PendingList> pending;
  std::condition_variable read;
  std::atomic<std::size_t> count{0};
};

Leaked<Table> g_collectives;
Table& table() { return *g_collectives; }

// Of several threads that try to finish a collective, one does it.
bool claim(Pending& pending) {
  const auto lock = table().pending.lock();
  if (pending.state != State::waiting) return false;
  pending.state = State::reading;
  pending.future = nullptr;
  return true;
}

void skip_missing(TensorDescriptor& described, const char* missing) {
  if (missing != nullptr && described.tensor.skip == nullptr) described.tensor.skip = missing;
  described.skip_if_released();
}

// `missing`: the reason why there are no values. Called by an owner of the work, so that its tensors are alive.
void finish(const PendingPtr& pending, bool failed, const char* missing) {
  if (!claim(*pending)) return;
  if (!pending->is_view()) {
    for (TensorDescriptor& output : pending->outputs) report_write(pending->api, pending->op, output);
  }
  for (LateInput& input : pending->inputs) {
    skip_missing(input.descriptor, missing);
    pending->api.op_input(pending->op, input.slot, input.descriptor.get());
  }
  std::uint32_t slot = 0;
  for (TensorDescriptor& output : pending->outputs) {
    skip_missing(output, missing);
    if (!failed) pending->api.op_output(pending->op, slot++, output.get());
  }
  pending->api.op_complete(pending->op, failed ? 1 : 0);
  pending->inputs.clear();
  std::vector<TensorDescriptor> reported;  // destroyed after the lock
  Table& all = table();
  {
    const auto open = all.pending.lock();
    pending->state = State::done;
    reported.swap(pending->outputs);
    open->remove(pending);
    all.count = open->size();
  }
  all.read.notify_all();
}

void add(const PendingPtr& pending) {
  Table& all = table();
  const auto open = all.pending.lock();
  open->push_back(pending);
  all.count = open->size();
}

// Lives in the future's callback, and is destroyed with a future that never completes.
struct Ticket {
  PendingPtr pending;
  explicit Ticket(PendingPtr mine) : pending(std::move(mine)) {}
  ~Ticket() { finish(pending, false, kNeverComplete); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
};

c10::intrusive_ptr<c10d::Work> work_among(const std::vector<c10::IValue>& results) {
  try {
    for (const c10::IValue& value : results) {
      if (value.isCustomClass()) return value.toCustomClass<c10d::Work>();
    }
  } catch (const std::exception&) {  // another class
  }
  return {};
}

// Null for works that the waiting thread completes: gloo's receives and its reduce_scatter.
c10::intrusive_ptr<Future> future_of(c10d::Work& work) {
  try {
    return work.getFuture();
  } catch (const std::exception&) {
    return {};
  }
}

void replace_work(const void* work) {
  std::vector<PendingPtr> old;
  {
    const auto open = table().pending.lock();
    std::ranges::copy_if(*open, std::back_inserter(old), [&](const PendingPtr& p) { return p->work == work; });
  }
  for (const PendingPtr& pending : old) finish(pending, false, kNeverWaited);
}

bool writes(const Pending& pending, const sonde_tensor& tensor) {
  return std::ranges::any_of(pending.outputs,
                             [&](const TensorDescriptor& output) { return share_memory(output.tensor, tensor); });
}

PendingPtr find(const PendingList& all, const sonde_tensor& tensor) {
  const auto found = std::ranges::find_if(all, [&](const PendingPtr& p) { return writes(*p, tensor); });
  return found == all.end() ? nullptr : *found;
}

}  // namespace

bool inside_collective_thread() {
  thread_local const bool is_gloo = [] {
    char name[16] = "";
    return ::pthread_getname_np(::pthread_self(), name, sizeof name) == 0 && std::strncmp(name, "pt_gloo", 7) == 0;
  }();
  // A user's callback on the future runs there too: it is Python.
  return is_gloo && current_frame() == nullptr;
}

void complete_later(const struct sonde_api& api, sonde_op* op, std::vector<TensorDescriptor> outputs,
                    const std::vector<c10::IValue>& results) {
  const auto pending = std::make_shared<Pending>(
      Pending{api, api.op_defer(op), std::move(outputs), State::waiting, nullptr, nullptr, false});
  const c10::intrusive_ptr<c10d::Work> work = work_among(results);
  if (!work || is_python(*work)) return finish(pending, false, kIncomplete);
  if (pending->outputs.empty()) return finish(pending, false, nullptr);
  const c10::intrusive_ptr<Future> future = future_of(*work);
  if (!future) {
    replace_work(work.get());
    pending->work = work.get();
    return add(pending);
  }
  pending->future = future.get();
  add(pending);
  auto ticket = std::make_shared<Ticket>(pending);
  // Runs before Work.wait() returns; Future.wait() may return while it runs, see meet_collectives().
  future->addCallback([ticket](Future& done) { finish(ticket->pending, done.hasError(), nullptr); });
}

void complete_when_waited(const struct sonde_api& api, sonde_op* op, std::vector<TensorDescriptor> outputs) {
  add(std::make_shared<Pending>(
      Pending{api, api.op_defer(op), std::move(outputs), State::waiting, nullptr, nullptr, true}));
}

void complete_with_collective(const struct sonde_api& api, sonde_op* op, std::vector<LateInput> inputs,
                              std::vector<TensorDescriptor> outputs) {
  add(std::make_shared<Pending>(
      Pending{api, api.op_defer(op), std::move(outputs), State::waiting, nullptr, nullptr, true, std::move(inputs)}));
}

bool tensor_waited(const sonde_tensor& tensor) {
  std::vector<PendingPtr> complete;
  {
    const auto open = table().pending.lock();
    std::ranges::copy_if(*open, std::back_inserter(complete), [&](const PendingPtr& p) {
      return p->functional && p->state == State::waiting && writes(*p, tensor);
    });
  }
  for (const PendingPtr& pending : complete) finish(pending, false, nullptr);
  return !complete.empty();
}

void meet_collectives(sonde_tensor& tensor) {
  Table& all = table();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  auto open = all.pending.lock();
  while (const PendingPtr pending = find(*open, tensor)) {
    const bool complete = pending->state == State::reading || (pending->future && pending->future->completed());
    if (!complete) {
      if ((tensor.flags & SONDE_TENSOR_FOREIGN) == 0) tensor.flags |= SONDE_TENSOR_FOREIGN | SONDE_TENSOR_OBSERVED;
      if (pending->functional && tensor.skip == nullptr) tensor.skip = kUnfinished;
      return;
    }
    open.wait(all.read, [&] { return pending->state == State::done; });
  }
}

bool is_unfinished(const sonde_tensor& tensor) { return tensor.skip == kUnfinished; }

void work_waited(const void* address) {
  Table& all = table();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  PendingPtr mine;
  {
    const auto open = all.pending.lock();
    const auto it = std::ranges::find_if(*open, [&](const PendingPtr& p) { return p->work == address; });
    if (address == nullptr || it == open->end()) return;
    mine = *it;
  }
  finish(mine, false, nullptr);
}

void purge_collectives() {
  Table& all = table();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  std::vector<PendingPtr> dead;
  {
    const auto open = all.pending.lock();
    std::ranges::copy_if(*open, std::back_inserter(dead), [](const PendingPtr& p) {
      return (p->work != nullptr || p->functional) && p->state == State::waiting &&
             std::ranges::none_of(p->outputs, [](const TensorDescriptor& output) { return output.still_valid(); });
    });
  }
  for (const PendingPtr& pending : dead) finish(pending, false, kNeverWaited);
}

void end_collectives() {
  Table& all = table();
  std::vector<PendingPtr> left;
  {
    auto open = all.pending.lock();
    const auto soon = [](const PendingPtr& p) {
      return p->state == State::reading || (p->future && p->future->completed());
    };
    open.wait(all.read, [&] { return std::ranges::none_of(*open, soon); });
    left.assign(open->begin(), open->end());
  }
  for (const PendingPtr& pending : left)
    finish(pending, false, pending->work || pending->functional ? kNeverWaited : kNeverComplete);
}

void forget_collectives() { g_collectives.renew(); }

}  // namespace sonde_torch
