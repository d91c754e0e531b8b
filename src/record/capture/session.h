// Session: the one capture of this process: its life, its clock, and whether it has failed. OpRecorder records
// the operators.
//
// Called on the host's threads. Short critical sections under one lock; bytes are read outside it; no function accesses
// the disk. Every function is safe to call after a failure: it then does nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dump/journal/record.h"
#include "plan/config/plan.h"
#include "record/capture/host_tensor.h"
#include "record/capture/modes/overhead.h"
#include "record/capture/modes/ring_signals.h"
#include "record/capture/named_host.h"
#include "record/capture/op.h"
#include "record/capture/op_recorder.h"
#include "record/capture/sites.h"
#include "record/capture/step_clock.h"
#include "sonde/sonde.h"

namespace sonde {

class Session {
 public:
  explicit Session(Plan plan);

  // --- life ---
  const Plan& plan() const { return plan_; }
  void set_run_info(RunInfo info);
  // Flushes and closes. Returns the closing line for the user, see summary.h.
  std::string stop();
  void abandon();  // in a forked child
  void fail(std::string message);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  bool take_failure(std::string& message);
  // Writes the steps in the ring; returns their number when they are on disk. `why` is for people.
  std::uint64_t write_ring(const std::string& why);

  // --- clock ---
  sonde_capture root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive);
  sonde_capture quiet_forward(const QuietForward& forward);
  sonde_capture optimizer_end();
  sonde_capture scaler_update();
  sonde_capture manual_step();
  sonde_capture autograd_started();
  sonde_capture modules_exist(bool with_parameters);
  sonde_capture capture();
  sonde_capture set_recording(bool on);
  sonde_capture set_step(std::uint64_t step);

  // --- names and memory of the program ---
  std::uint32_t site(Site site);
  void flag_type(std::string_view type, bool enabled);
  void flag_scope(std::string_view scope, std::string_view type, bool enabled);
  void source_text(std::string file, std::string text);
  void name_tensor(std::string_view name, const HostTensor& tensor);
  void storage_changed(std::uint64_t storage);  // by an op that is not recorded; 0: anything
  void storages_freed(std::span<const std::uint64_t> storages);

  // --- ops; other functions are called on op.recorder ---
  std::uint32_t op_begin(Op& op, std::uint32_t site, sonde_graph graph, std::uint64_t attributes);
  void op_check_output(Op& op, const HostTensor& output);
  void op_output(Op& op, std::uint32_t slot, const HostTensor& tensor);
  void op_failed(Op& op);
  void device_read_done();
  bool records_graph(sonde_graph graph);
  std::uint32_t site_wants(std::uint32_t site, std::uint32_t count);  // SONDE_WANT_*
  bool op_replaced(std::uint32_t site, std::string_view by);
  void op_result_at(std::uint64_t maker, std::uint32_t output, const HostTensor& tensor);
  void ops_forgotten(std::span<const std::uint64_t> sequences);

  // --- hosts that name their operators ---
  Result<NamedHostSettings> named_host_settings();
  bool wants_step(std::uint64_t step);
  bool wants_named(const NamedOp& named);
  std::uint32_t named_op_begin(const NamedOp& named, Op& op);
  void named_parameter(const NamedOp& named, const HostTensor& tensor);
  void named_step_end();

 private:
  // If a process has two hosts, the first owns the dump.
  enum class Host { clocked, naming };

  void apply(const std::vector<StepChange>& changes, Host host = Host::clocked);
  bool open_recorder(Host host);
  bool is_open_for(const NamedOp& named);
  bool records_nothing() const;
  void begin_again();
  void settle();
  bool is_undecided();
  bool is_current(const Op& op) const { return op.recorder == ops_.get(); }
  std::uint32_t graph_of(const Site& site, sonde_graph graph);
  sonde_capture answer();
  void note_failure(const Error& error);
  void announce_modes();
  bool leaves_out(const StepChange& change);
  void limit_overhead();

  const Plan plan_;
  std::mutex lock_;  // guards all members below and those of ops_
  RunInfo run_info_;
  StepClock clock_;
  SiteTable sites_;
  std::vector<SourceText> source_texts_;  // until a recorder takes them for good
  NamedHost named_host_;
  std::unique_ptr<OpRecorder> ops_;
  std::deque<std::unique_ptr<OpRecorder>> taken_back_;  // another thread's op may still be inside one
  std::unique_ptr<RingSignals> ring_signals_;
  std::optional<Overhead> overhead_;  // if the plan limits it
  Host owner_ = Host::clocked;
  bool other_host_ = false;  // the one that does not own the dump wanted to record too
  std::uint64_t ops_provisional_ = 0;
  bool asked_for_modules_ = false;
  bool excluded_ = false;  // this device is not in support_device
  bool started_ = false;   // capture() was called
  std::string failure_;
  bool failure_reported_ = false;
  std::atomic<bool> failed_{false};
};

}  // namespace sonde
