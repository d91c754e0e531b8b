// Session: the one capture of this process, as the host sees it: its life, the events of its clock, its program; ops() and
// named() for operators.
//
// Called on the host's threads. Short critical sections under one lock; bytes are read outside it; no function accesses
// the disk. Every function is safe to call after a failure: it then does nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plan/config/plan.h"
#include "record/capture/host_tensor.h"
#include "record/capture/kept_summary.h"
#include "record/capture/named_ops.h"
#include "record/capture/run.h"
#include "record/capture/session_ops.h"
#include "sonde/sonde.h"

namespace sonde {

class Session {
 public:
  explicit Session(Plan plan);

  const Plan& plan() const { return run_.plan(); }
  SessionOps& ops() { return ops_; }
  NamedOps& named() { return named_; }                                // for a host that names its operators
  KeptSummary* summary() { return summary_ ? &*summary_ : nullptr; }  // null: the plan asks for none

  // --- life ---
  void set_run_info(RunInfo info);
  // Flushes and closes. Returns the closing line for the user, see summary.h.
  std::string stop();
  void abandon() { run_.abandon(); }  // in a forked child
  void fail(std::string message);
  bool failed() const { return run_.failed(); }
  bool take_failure(std::string& message);
  // Writes the steps in the ring; returns their number when they are on disk. `why` is for people.
  std::uint64_t write_ring(const std::string& why) { return run_.write_ring(why); }

  // --- clock ---
  sonde_capture root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive);
  sonde_capture quiet_forward(const QuietForward& forward);
  sonde_capture optimizer_end();
  sonde_capture scaler_update();
  sonde_capture manual_step();
  sonde_capture step_over();
  bool is_common_step(sonde_graph graph);
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
  void step_requests(std::vector<StepRequest> requests);
  void storage_changed(std::uint64_t storage);                           // by an op that is not recorded; 0: anything
  void storage_allocated(const HostTensor& tensor, std::uint64_t kept);  // fresh memory after the first bytes
  void storages_freed(std::span<const std::uint64_t> storages);

 private:
  Run run_;
  SessionOps ops_{run_};
  NamedOps named_{run_};
  std::optional<KeptSummary> summary_;
  bool started_ GUARDED_BY_SESSION = false;  // capture() was called
};

}  // namespace sonde
