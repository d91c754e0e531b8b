// Session: the one capture of this process. Takes a host's events, decides what of them is
// recorded, hands records on.
//
// Called on the host's threads. Short critical sections under one lock; bytes are read outside it; nothing here touches
// the disk. Every function is safe to call after a failure: it then does nothing.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/identity.h"
#include "capture/step_clock.h"
#include "config/selector.h"
#include "sonde/plan.h"
#include "sonde/sonde.h"
#include "store/recorder.h"

namespace sonde {

// One op in flight on one thread.
struct Op {
  Record record;
  Selector::Wanted wanted;
  bool backward = false;
  class Session* owner = nullptr;
};

class Session {
 public:
  explicit Session(Plan plan);
  ~Session();

  const Plan& plan() const { return plan_; }
  void set_run_info(const sonde_run_info& info);

  unsigned root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive);
  unsigned optimizer_end();
  unsigned scaler_update();
  unsigned manual_step();
  unsigned autograd_seen();
  unsigned capture();

  std::uint32_t site(const sonde_site& site);
  void name_tensor(const char* name, const sonde_tensor& tensor);

  void source_text(const char* file, const char* text);

  unsigned op_begin(std::uint32_t site, std::uint32_t graph, std::uint64_t attributes, Op*& op);
  void op_attributes(Op& op, std::span<const sonde_attribute> attributes);
  void op_input_before(Op& op, std::uint32_t slot, const sonde_tensor& tensor);
  void op_wrote(Op& op, std::uint64_t storage);
  void op_input(Op& op, std::uint32_t slot, const sonde_tensor& tensor);
  void op_output(Op& op, std::uint32_t slot, const sonde_tensor& tensor);
  void op_end(Op& op, bool failed);  // also of what op_defer gave
  // Ends `op` without its outputs. They are told of the one that is returned, on any thread, and ended by op_end.
  std::unique_ptr<Op> op_defer(Op& op);
  void forget(std::span<const std::uint64_t> storages);
  void wrote(std::uint64_t storage);  // by an op that is not recorded; 0: anything

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
    std::uint64_t stamp[2] = {0, 0};
    std::uint32_t next[2] = {0, 0};
    struct Entry {
      const OpName* name;
      Selector::Wanted wanted;
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

  void apply(const std::vector<StepChange>& changes);
  void forget_unnamed();
  bool ensure_recorder();
  unsigned answer();
  void push_step(bool began, StepId step);
  void tell_source_texts();
  void define_site(std::uint32_t site);
  std::uint32_t attributes_id(std::uint64_t hash, bool& fresh);
  const OpName& name_of(NameKey& key, const Site& site, std::uint32_t number);
  Selector::Wanted decide_in_order(const OpName& name, const Site& site, std::uint32_t graph);
  void add_producer(std::uint64_t sequence);
  const OpName& parameter_name(const std::string& name);
  void add_tensor(Op& op, bool is_input, std::uint32_t slot, const sonde_tensor& tensor);
  void read(const sonde_tensor& tensor, const TensorKey& key, bool wanted, TensorRecord& out);
  void emit_parameter(const OpName& name, const sonde_tensor& tensor, const Record& reader, bool in_constants);
  void emit_named(const sonde_tensor& tensor, const Record& reader, TensorRecord& out);
  void emit_unwritten(const sonde_tensor& tensor, const Record& reader, bool backward, TensorRecord& out);
  std::string why_nothing(const Totals& totals) const;
  void shrink();

  const Plan plan_;
  std::unique_ptr<Selector> selector_;
  std::unique_ptr<Recorder> recorder_;  // opened before the first chosen step
  RunInfo run_info_;

  mutable std::mutex mutex_;  // everything below
  StepClock clock_;
  Identity identity_;
  std::uint64_t next_content_ = 1;
  std::uint32_t next_attributes_ = 1;
  std::unordered_map<std::uint64_t, std::uint32_t> attribute_ids_;  // by the host's hash
  std::vector<SourceText> source_texts_;                            // until there is a recorder to tell
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
  std::unordered_map<std::uint64_t, std::vector<NamedTensor>> named_;  // by storage
  std::unordered_map<std::uint64_t, std::uint32_t> data_names_[2];     // storage -> data-N, per graph
  std::uint64_t constants_stamp_[2] = {0, 0};  // the step whose data-N are its graph's constants
  std::uint64_t step_stamp_[2] = {0, 0};       // changes whenever a step of that graph begins
  std::uint32_t next_task_[2] = {0, 0};        // ops of that step so far
  std::uint64_t stamp_ = 0;
  bool step_announced_[2] = {false, false};  // the recorder knows that the step of that graph has begun
  std::uint64_t steps_recorded_ = 0;
  bool excluded_ = false;  // this device is not in support_device
  bool seen_root_ = false;
  bool started_ = false;  // capture() was called
  std::string failure_;
  bool failure_told_ = false;
  std::atomic<bool> failed_{false};
};

}  // namespace sonde
