// OpRecorder: records one beginning of a session: its steps and its operators. The tensors of an op: tensors(); the way of
// a finished record: gates().
//
// A session has several beginnings if the ops so far turn out not to be a step (step_clock.h). Each has its own
// OpRecorder; an op that began earlier continues in the old one, whose records are dropped.
//
// Under the session's lock, or taking it, as each function says. Bytes are read without it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "plan/config/plan.h"
#include "plan/config/selector.h"
#include "record/capture/graph_step.h"
#include "record/capture/host_tensor.h"
#include "record/capture/modes/earlier_values.h"
#include "record/capture/modes/watched_outputs.h"
#include "record/capture/op.h"
#include "record/capture/op_names.h"
#include "record/capture/op_tensors.h"
#include "record/capture/record_gates.h"
#include "record/capture/session_lock.h"
#include "record/capture/site_forecast.h"
#include "record/capture/sites.h"
#include "record/capture/step_clock.h"
#include "record/writer/recorder.h"

namespace sonde {

class OpRecorder {
 public:
  struct Counts {
    std::uint64_t ops = 0, flagged_ops = 0;
    std::uint64_t steps_begun = 0;  // the chosen ones
    std::uint64_t steps_ended = 0;  // those of them with an op
  };

  // All three must outlive it.
  OpRecorder(const Plan& plan, const SiteTable& sites, std::mutex& lock);

  // --- life ---
  void limit(Overhead* overhead) REQUIRES(session_lock);                 // before the first op; it outlives this
  void open(std::unique_ptr<Recorder> recorder) REQUIRES(session_lock);  // before the first chosen step
  Recorder* recorder() { return recorder_.get(); }
  const Recorder* recorder() const { return recorder_.get(); }
  // None of its data goes into the dump. Ops of other threads may still be inside.
  void discard() REQUIRES(session_lock);
  // It has ended: frees its knowledge of the host's memory and names.
  void shrink() REQUIRES(session_lock);

  // --- steps ---
  void begin_step(const StepChange& change, bool keeps) REQUIRES(session_lock);
  void end_step(StepId step) REQUIRES(session_lock);
  // A step without ops is not recorded: it is reported with its first op.
  void announce(StepId step) REQUIRES(session_lock);
  void name_tensor(std::string_view name, const HostTensor& tensor) REQUIRES(session_lock);
  // Of the step that begins next.
  void set_requests(std::vector<StepRequest> requests) REQUIRES(session_lock) { requests_ = std::move(requests); }
  std::vector<StepRequest> take_requests() REQUIRES(session_lock) { return std::exchange(requests_, {}); }

  // --- ops ---
  // Both return SONDE_WANT_*. `attributes`: a hash, 0 for none.
  std::uint32_t begin(Op& op, const Site& site, StepId step, std::uint64_t attributes) REQUIRES(session_lock);
  std::uint32_t begin_named(Op& op, const OpName& name, const Site& site, StepId step, Selector::Wanted wanted,
                            bool flagged, std::uint64_t attributes) REQUIRES(session_lock);
  void set_attributes(Op& op, std::vector<Attribute> values) EXCLUDES(session_lock);
  void set_attributes_locked(Op& op, std::vector<Attribute> values) REQUIRES(session_lock);  // after begin_named()
  void input_before(Op& op, std::uint32_t slot, const HostTensor& tensor) EXCLUDES(session_lock);
  void input(Op& op, std::uint32_t slot, const HostTensor& tensor) EXCLUDES(session_lock);
  void output(Op& op, std::uint32_t slot, const HostTensor& tensor) EXCLUDES(session_lock);
  bool watched(Op& op, std::uint32_t watch_id, std::uint32_t slot, const HostTensor& tensor) EXCLUDES(session_lock);
  void end(Op& op, bool failed) EXCLUDES(session_lock);  // also for ops from defer()
  // Ends `op` without its outputs. The outputs are reported for the returned op, on any thread; end() ends that one.
  std::unique_ptr<Op> defer(Op& op) EXCLUDES(session_lock);

  // --- what it consists of ---
  OpTensors& tensors() { return tensors_; }
  RecordGates& gates() { return gates_; }
  const FoundOps& found() const REQUIRES(session_lock) { return gates_.found(); }
  bool found_enough() const REQUIRES(session_lock) { return gates_.found_enough(); }
  SiteForecast& forecast() REQUIRES(session_lock) { return forecast_; }
  Selector& selector() REQUIRES(session_lock) { return selector_; }
  const Selector& selector() const REQUIRES(session_lock) { return selector_; }
  OpNames& names() REQUIRES(session_lock) { return names_; }
  const Counts& counts() const REQUIRES(session_lock) { return counts_; }
  const Watcher& watcher() const REQUIRES(session_lock) { return watched_.watcher(); }

 private:
  void push_step(bool began, StepId step) REQUIRES(session_lock);
  std::uint32_t define_requests(std::uint32_t graph) REQUIRES(session_lock);
  void fill_record(Op& op, const OpName& name, std::uint32_t site, StepId step) REQUIRES(session_lock);
  std::uint32_t wanted_bits(Op& op, bool flagged) REQUIRES(session_lock);
  std::uint32_t attributes_id(std::uint64_t hash, bool& fresh) REQUIRES(session_lock);

  const SiteTable& sites_ GUARDED_BY_SESSION;
  std::mutex& lock_;
  Overhead* overhead_ = nullptr;

  Selector selector_ GUARDED_BY_SESSION;
  OpNames names_ GUARDED_BY_SESSION;  // before recorder_, whose writer points to names until it has finished
  std::unique_ptr<Recorder> recorder_;
  SiteForecast forecast_ GUARDED_BY_SESSION;
  GraphSteps steps_ GUARDED_BY_SESSION;
  std::uint64_t stamp_ GUARDED_BY_SESSION = 0;
  std::vector<StepRequest> requests_ GUARDED_BY_SESSION;
  RecordGates gates_;
  OpTensors tensors_;
  EarlierValues earlier_;
  WatchedOutputs watched_;
  Counts counts_ GUARDED_BY_SESSION;
  std::uint32_t next_attributes_ GUARDED_BY_SESSION = 1;
  std::unordered_map<std::uint64_t, std::uint32_t> attribute_ids_ GUARDED_BY_SESSION;  // by the host's hash
};

}  // namespace sonde
