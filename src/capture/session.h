// Session: the one capture of this process. Takes a host's events, decides what of them is
// recorded, hands records on.
//
// Called on the host's threads. Short critical sections under one lock; bytes are read outside it; nothing here touches
// the disk. Every function is safe to call after a failure: it then does nothing.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/host_steps.h"
#include "capture/identity.h"
#include "capture/per_graph.h"
#include "capture/step_clock.h"
#include "capture/watcher.h"
#include "capture/written.h"
#include "config/plan.h"
#include "config/selector.h"
#include "graph/execution_order.h"
#include "sonde/sonde.h"
#include "writer/recorder.h"

namespace sonde {

// An argument that the op writes, as it was before: what is recorded of it is decided when the op has run.
struct Snapshot {
  std::size_t index = 0;  // of its record among the op's
  BlockPtr image;         // its bytes; null when its statistics are all the plan wants, which the record has then
  Dims shape, strides;    // of the image
  std::uint32_t flags = 0;
};

// One op in flight on one thread.
struct Op {
  Record record;
  Selector::Wanted wanted;
  bool backward = false;
  bool deferred = false;  // op_defer gave it
  std::vector<Snapshot> before;
  class Session* owner = nullptr;
  std::uint32_t beginning = 0;   // of the session's: what was begun before the last one is no longer wanted
  Recorder* recorder = nullptr;  // of that beginning
};

class Session {
 public:
  explicit Session(Plan plan);
  ~Session();

  const Plan& plan() const { return plan_; }
  void set_run_info(const sonde_run_info& info);

  sonde_capture root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive);
  sonde_capture quiet_forward(const QuietForward& forward);
  sonde_capture optimizer_end();
  sonde_capture scaler_update();
  sonde_capture manual_step();
  sonde_capture autograd_started();
  sonde_capture modules_exist(bool with_parameters);
  sonde_capture capture();
  sonde_capture set_recording(bool on);
  sonde_capture set_iteration(std::uint64_t iteration);

  std::uint32_t site(const sonde_site& site);
  void name_tensor(const char* name, const sonde_tensor& tensor);

  void flag_type(std::string_view type, bool enabled);
  void source_text(const char* file, const char* text);

  unsigned op_begin(std::uint32_t site, std::uint32_t graph, std::uint64_t attributes, Op*& op);
  void op_attributes(Op& op, std::span<const sonde_attribute> attributes);
  void op_input_before(Op& op, std::uint32_t slot, const sonde_tensor& tensor);
  void op_mutated(Op& op, std::uint64_t storage);
  void op_input(Op& op, std::uint32_t slot, const sonde_tensor& tensor);
  void op_output(Op& op, std::uint32_t slot, const sonde_tensor& tensor);
  void op_end(Op& op, bool failed);  // also of what op_defer gave
  void op_check_output(Op& op, const sonde_tensor& output);
  void op_failed(Op& op);
  bool op_watched(Op& op, std::uint32_t watched, std::uint32_t slot, const sonde_tensor& tensor);
  // Ends `op` without its outputs. They are told of the one that is returned, on any thread, and ended by op_end.
  std::unique_ptr<Op> op_defer(Op& op);
  // Hosts that name their operators: session_named.cpp.
  Status host_settings(sonde_host_settings& settings);
  bool wants_iteration(std::uint64_t iteration);
  bool wants_named(const sonde_named_op& named);
  unsigned named_op_begin(const sonde_named_op& named, Op& op);
  void named_parameter(const sonde_named_op& named, const sonde_tensor& tensor);
  void named_step_end();
  void flag_scope(std::string_view scope, std::string_view type, bool enabled);

  void storages_freed(std::span<const std::uint64_t> storages);
  void storage_changed(std::uint64_t storage);  // by an op that is not recorded; 0: anything

  // Flushes and closes. The line for the user: what was recorded and where, or why nothing was.
  std::string stop();
  void abandon();  // in a forked child
  void fail(std::string message);
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  bool take_failure(std::string& message);

 private:
  static constexpr std::uint32_t kNoKey = ~0u;
  // (type, scope): numbers its ops.
  struct NameKey {
    std::string op_type;
    std::array<std::uint64_t, StepClock::kGraphs> stamp{};
    std::array<std::uint32_t, StepClock::kGraphs> next{};
    struct Entry {
      const OpName* name;
      Selector::Wanted wanted, wanted_if_flagged;
    };
    std::vector<Entry> entries;  // by ordinal, grown as ops appear
  };
  // A parameter, buffer, gradient or optimizer state.
  struct NamedTensor {
    const OpName* name = nullptr;
    bool wanted = false;
    std::uint64_t emitted_stamp = 0;
    std::uint64_t named_in_step = 0;  // of the recorded ones
    const void* data = nullptr;
    DType dtype = DType::undefined;
    Dims shape, strides;
    std::uint64_t extent_bytes = 0;  // from the first to the last element
  };

  // Of one graph, where only what is found is kept: the records of the open step, until something is.
  struct Held {
    std::vector<Record> records;
    bool kept = false;
  };

  // An op of a host that names its operators.
  struct NamedOp {
    const OpName* name = nullptr;
    std::vector<std::string> other_names;  // those it may have in the host's graph files, where it has another
    std::uint32_t site = 0;
    Selector::Wanted wanted, wanted_if_flagged;
  };

  void apply(const std::vector<StepChange>& changes, bool named = false);
  void forget_unnamed();
  bool ensure_recorder(bool named = false);
  void begin_again();
  void settle();
  bool is_undecided();
  bool is_stale(const Op& op) const { return op.beginning != beginning_; }
  sonde_capture answer();
  void push_step(bool began, StepId step);
  void announce(StepId step);
  void tell_source_texts();
  void define_site(std::uint32_t site);
  std::uint32_t attributes_id(std::uint64_t hash, bool& fresh);
  const OpName& name_of(NameKey& key, const Site& site, std::uint32_t number);
  Selector::Wanted decide_in_order(const OpName& name, const Site& site, std::uint32_t graph, bool flagged);
  unsigned begin_in_mode(Op& op, bool flagged);
  void begin_record(Op& op, const OpName& name, StepId step, std::uint32_t site);
  NamedOp& named_op(const sonde_named_op& named);
  std::vector<std::string> other_names_of(const sonde_named_op& named);
  Selector::Wanted decide_named(const NamedOp& op, std::uint32_t graph, bool flagged);
  bool is_flagged(const NamedOp& op) const;
  bool found_enough() const;
  void add_producer(std::uint64_t sequence);
  const OpName& parameter_name(const std::string& name);
  bool describe(Op& op, bool is_input, std::uint32_t slot, const sonde_tensor& tensor, TensorRecord& record);
  void add_tensor(Op& op, bool is_input, std::uint32_t slot, const sonde_tensor& tensor);
  bool is_flagged(const Site& site) const;
  // Modes that keep only some ops: session_modes.cpp.
  void add_before(Op& op, std::uint32_t slot, const sonde_tensor& tensor);
  void settle_before(Op& op, bool kept);
  bool is_finite(Op& op, const sonde_tensor& output);
  void watch(Op& op, std::uint32_t slot, const sonde_tensor& output);
  void note_written(std::uint32_t name, std::uint32_t slot, std::uint64_t sequence);
  void note_change(const Op& op, std::uint32_t name, std::uint32_t slot, std::uint64_t fingerprint,
                   const TensorRecord& now);
  const OpName& pair_name(const OpName& reader, const OpName& watched);
  void submit(Op& op);                  // without the lock
  void submit_locked(Record&& record);  // with it
  void keep_step(std::uint32_t graph);
  void end_held(std::uint32_t graph);
  void skip_dropped();
  std::string found_line(const Totals& totals) const;
  void read(Recorder& recorder, const sonde_tensor& tensor, const TensorKey& key, bool wanted, TensorRecord& out);
  void emit_parameter(Recorder& recorder, const OpName& name, const sonde_tensor& tensor, const Record& reader,
                      bool in_constants);
  void emit_named(const Op& op, const sonde_tensor& tensor, TensorRecord& out);
  void emit_unwritten(const Op& op, const sonde_tensor& tensor, TensorRecord& out);
  void note_found(const Record& record);
  std::string line_in_graph(const std::string& full_name, std::uint32_t graph) const;
  std::string why_nothing(const Totals& totals) const;
  std::string how_steps_were_counted() const;
  void shrink();

  const Plan plan_;
  const bool looks_ = plan_.overflow_only();     // every op is looked at, those whose output is not finite are kept
  const bool catches_ = plan_.exception_only();  // the op that throws is kept
  const bool holds_ = looks_ || catches_;
  const bool reads_ = plan_.saved_data != SavedData::graph;  // any tensor at all
  const bool watches_ = plan_.acl.scene == Scene::watcher;
  const bool emits_parameters_ = !holds_ && !watches_;
  // Only then is it asked twice what is selected.
  const bool flags_matter_ = plan_.dump_mode == DumpMode::flagged || plan_.acl.in_use;
  const bool reshapes_ = Written::differs(plan_);
  std::unique_ptr<Selector> selector_;
  std::unique_ptr<Recorder> recorder_;  // opened before the first chosen step
  RunInfo run_info_;

  mutable std::mutex mutex_;  // everything below
  StepClock clock_;
  Identity identity_;
  std::uint64_t next_content_ = 1;
  std::uint32_t next_attributes_ = 1;
  std::unordered_map<std::uint64_t, std::uint32_t> attribute_ids_;  // by the host's hash
  std::vector<SourceText> source_texts_;                            // until the recorder is told for good
  std::deque<Site> sites_;                                          // index = id - 1
  std::unordered_map<std::string, std::uint32_t> site_ids_;
  std::vector<std::uint32_t> site_keys_;  // site id - 1 -> index into name_keys_
  std::vector<bool> site_defined_;        // told to the recorder
  std::deque<NameKey> name_keys_;
  std::unordered_map<std::string, std::uint32_t> name_key_ids_;
  // Where the plan follows producers: the ops of the steps going on, by sequence; where they are in name_keys_.
  std::unordered_map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> entries_of_step_;
  std::deque<OpName> names_;  // stable addresses; index = id - 1
  std::uint32_t nodes_ = 0;   // named so far, where the layout numbers ops throughout
  std::unordered_map<std::string, std::uint32_t> parameter_ids_;
  std::unordered_map<std::uint64_t, std::vector<NamedTensor>> named_;      // by storage
  PerGraph<std::unordered_map<std::uint64_t, std::uint32_t>> data_names_;  // storage -> data-N
  PerGraph<std::uint64_t> constants_stamp_;                                // the step whose data-N are its constants
  PerGraph<std::uint64_t> step_stamp_;                                     // changes whenever a step begins
  PerGraph<std::uint32_t> next_task_;                                      // ops of that step so far
  std::uint64_t stamp_ = 0;
  PerGraph<bool> step_announced_;  // the recorder knows that the step has begun
  std::uint64_t steps_recorded_ = 0;
  PerGraph<Held> held_;
  std::vector<Attributes> held_attributes_;                       // nothing that was kept has them yet
  std::vector<std::pair<std::uint64_t, std::uint64_t>> dropped_;  // sequences whose records nobody will get
  std::uint64_t ops_seen_ = 0, ops_found_ = 0, steps_seen_ = 0;
  std::string first_found_;        // the first op that was kept, and its line, for the closing line
  std::string first_found_named_;  // its name, where only the host's graph knows the line
  std::uint32_t first_found_graph_ = 0;
  std::vector<std::string> flagged_types_;
  bool host_names_ = false;   // host_settings() was called
  bool named_owner_ = false;  // of two hosts in one process the first owns the dump: the one that names its ops
  bool other_host_ = false;   // the other one would have recorded, too
  HostSteps host_steps_;
  std::unordered_map<std::string, NamedOp> named_ops_;  // by full name
  std::filesystem::path host_path_;                     // where the host writes its graphs
  PerGraph<std::optional<ExecutionOrderNames>> host_orders_;
  std::unordered_map<std::string, bool> flagged_scopes_;  // "{scope}", "{scope}|{type}" -> set_dump's last word
  std::uint64_t named_asked_ = 0;                         // ops that the host asked wants_named() about
  std::uint64_t ops_flagged_ = 0;
  Watcher watcher_;
  // What the step clock took back: another thread's op may still be inside it.
  struct Beginning {
    std::unique_ptr<Recorder> recorder;
    std::deque<OpName> names;
  };
  std::deque<Beginning> taken_back_;
  std::uint32_t beginning_ = 0;
  std::uint64_t ops_provisional_ = 0;
  bool asked_for_modules_ = false;
  bool excluded_ = false;  // this device is not in support_device
  bool seen_root_ = false;
  bool started_ = false;  // capture() was called
  std::string failure_;
  bool failure_told_ = false;
  std::atomic<bool> failed_{false};
};

}  // namespace sonde
