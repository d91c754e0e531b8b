// Run: what is recorded at the moment: the step by the clock, the recorder of its operators, and the host that owns the
// dump. The faces of a session (session.h, session_ops.h, named_ops.h) take the lock and call it.
//
//   { const SessionLock lock(run.mutex()); run.apply(run.clock().optimizer_end()); return run.answer(); }
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dump/journal/record.h"
#include "plan/config/plan.h"
#include "record/capture/modes/overhead.h"
#include "record/capture/modes/ring_signals.h"
#include "record/capture/named_host.h"
#include "record/capture/op_recorder.h"
#include "record/capture/session_lock.h"
#include "record/capture/sites.h"
#include "record/capture/step_clock.h"
#include "sonde/sonde.h"

namespace sonde {

// If a process has two hosts, the first owns the dump.
enum class Host { clocked, naming };

class Run {
 public:
  explicit Run(Plan plan);

  const Plan& plan() const { return plan_; }
  std::mutex& mutex() { return mutex_; }

  // --- life ---
  void set_info(RunInfo info) REQUIRES(session_lock);
  const RunInfo& info() const REQUIRES(session_lock) { return info_; }
  std::string stop() EXCLUDES(session_lock);  // returns the closing line, see summary.h
  void abandon() NO_THREAD_SAFETY_ANALYSIS;   // in a forked child
  // Writes the steps in the ring; returns their number when they are on disk. `why` is for people.
  std::uint64_t write_ring(const std::string& why) EXCLUDES(session_lock);

  // --- failure: only the first one is reported, once ---
  void note_failure(const Error& error) REQUIRES(session_lock);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  bool take_failure(std::string& message) REQUIRES(session_lock);

  // --- steps ---
  StepClock& clock() REQUIRES(session_lock) { return clock_; }
  void apply(const std::vector<StepChange>& changes, Host host = Host::clocked) REQUIRES(session_lock);
  // Whether there is a recorder, for this host.
  bool open_recorder(Host host) REQUIRES(session_lock);
  // The provisional steps go into the dump.
  void settle() REQUIRES(session_lock);
  // The answer to an event of the clock.
  sonde_capture answer() REQUIRES(session_lock);
  // The chosen step that an op of the clocked host belongs to; nothing if it is not recorded.
  std::optional<StepId> step_of_op(const Site& site, sonde_graph graph) REQUIRES(session_lock);
  // Many ops have run, or many bytes wait, and it is undecided whether they are a preamble. Asked once; a host that does
  // not know decides that they are steps.
  bool is_undecided() REQUIRES(session_lock);
  bool records_nothing() const REQUIRES(session_lock);
  bool limits_overhead() const REQUIRES(session_lock) { return overhead_.has_value(); }

  // --- what it consists of ---
  OpRecorder& ops() REQUIRES(session_lock) { return *ops_; }
  SiteTable& sites() REQUIRES(session_lock) { return sites_; }
  NamedHost& named_host() REQUIRES(session_lock) { return named_host_; }
  Host owner() const REQUIRES(session_lock) { return owner_; }
  void add_source_text(SourceText text) REQUIRES(session_lock);

 private:
  void begin_again() REQUIRES(session_lock);
  std::uint32_t graph_of(const Site& site, sonde_graph graph) REQUIRES(session_lock);
  void announce_modes() REQUIRES(session_lock);
  void share_tensors() REQUIRES(session_lock);
  bool leaves_out(const StepChange& change) REQUIRES(session_lock);
  void limit_overhead() REQUIRES(session_lock);
  void leave_to_children() REQUIRES(session_lock);
  Recorder* end_steps() REQUIRES(session_lock);
  std::string close(const Recorder* recorder, const Totals& totals) REQUIRES(session_lock);

  const Plan plan_;
  std::mutex mutex_;
  RunInfo info_ GUARDED_BY_SESSION;
  StepClock clock_ GUARDED_BY_SESSION;
  SiteTable sites_ GUARDED_BY_SESSION;
  std::vector<SourceText> source_texts_ GUARDED_BY_SESSION;  // until a recorder takes them for good
  NamedHost named_host_ GUARDED_BY_SESSION;
  std::unique_ptr<OpRecorder> ops_ GUARDED_BY_SESSION;
  // Another thread's op may still be inside one.
  std::deque<std::unique_ptr<OpRecorder>> taken_back_ GUARDED_BY_SESSION;
  std::unique_ptr<RingSignals> ring_signals_;
  std::optional<Overhead> overhead_ GUARDED_BY_SESSION;  // if the plan limits it
  Host owner_ GUARDED_BY_SESSION = Host::clocked;
  bool other_host_ GUARDED_BY_SESSION = false;  // the one that does not own the dump wanted to record too
  std::uint64_t ops_provisional_ GUARDED_BY_SESSION = 0;
  bool asked_for_modules_ GUARDED_BY_SESSION = false;
  bool children_record_ GUARDED_BY_SESSION = false;  // and this process ran no model
  bool excluded_ GUARDED_BY_SESSION = false;         // this device is not in support_device
  std::string failure_ GUARDED_BY_SESSION;
  bool failure_reported_ GUARDED_BY_SESSION = false;
  std::atomic<bool> failed_{false};
};

}  // namespace sonde
