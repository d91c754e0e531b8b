// OpRecorder: records one beginning of a session: its steps, its operators, and the tensors read from them.
//
// A session has several beginnings if the ops so far turn out not to be a step (step_clock.h). Each has its own
// OpRecorder; an op that began earlier continues in the old one, whose records are dropped.
//
// Guarded by the session's lock: functions marked "locked" are called with it; the others take it, twice for a recorded
// tensor: before it is read and afterwards. Bytes are read without it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/config/plan.h"
#include "plan/config/selector.h"
#include "record/capture/content_cache.h"
#include "record/capture/host_tensor.h"
#include "record/capture/kept_outputs.h"
#include "record/capture/late_records.h"
#include "record/capture/modes/found_ops.h"
#include "record/capture/modes/step_buffer.h"
#include "record/capture/modes/watcher.h"
#include "record/capture/named_tensors.h"
#include "record/capture/op.h"
#include "record/capture/op_names.h"
#include "record/capture/per_graph.h"
#include "record/capture/sites.h"
#include "record/capture/step_clock.h"
#include "record/capture/tensor_reading.h"
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

  // --- life, locked ---
  void limit(Overhead* overhead) { overhead_ = overhead; }  // before the first op; it outlives this
  void open(std::unique_ptr<Recorder> recorder);            // before the first chosen step
  Recorder* recorder() { return recorder_.get(); }
  const Recorder* recorder() const { return recorder_.get(); }
  // None of its data goes into the dump. Ops of other threads may still be inside.
  void discard();
  // It has ended: frees its knowledge of the host's memory and names.
  void shrink();

  // --- steps, locked ---
  void begin_step(const StepChange& change, bool keeps);
  void end_step(StepId step);
  void announce(StepId step);  // a step without ops is not recorded: it is reported with its first op

  // --- memory, locked ---
  ContentCache& cache() { return cache_; }
  void name_tensor(std::string_view name, const HostTensor& tensor);
  void storage_changed(std::uint64_t storage);
  void storages_freed(std::span<const std::uint64_t> storages);

  // --- ops ---
  // Both locked; they return SONDE_WANT_*. `attributes`: a hash, 0 for none.
  std::uint32_t begin(Op& op, const Site& site, StepId step, std::uint64_t attributes);
  std::uint32_t begin_named(Op& op, const OpName& name, const Site& site, StepId step, Selector::Wanted wanted,
                            bool flagged, std::uint64_t attributes);
  void set_attributes(Op& op, std::vector<Attribute> values);
  void set_attributes_locked(Op& op, std::vector<Attribute> values);  // after begin_named()
  void input_before(Op& op, std::uint32_t slot, const HostTensor& tensor);
  void mutated(Op& op, std::uint64_t storage);
  void input(Op& op, std::uint32_t slot, const HostTensor& tensor) { add_tensor(op, true, slot, tensor); }
  void output(Op& op, std::uint32_t slot, const HostTensor& tensor);
  bool watched(Op& op, std::uint32_t watch_id, std::uint32_t slot, const HostTensor& tensor);
  void end(Op& op, bool failed);  // also for ops from defer()
  // Ends `op` without its outputs. The outputs are reported for the returned op, on any thread; end() ends that one.
  std::unique_ptr<Op> defer(Op& op);
  // The op's outputs are kept for input_of(); returns its number.
  std::uint64_t keep(const Op& op);
  void input_of(Op& op, std::uint32_t slot, std::uint64_t maker, std::uint32_t output);
  // An output of an op lies in other memory than it was reported with. Locked.
  void result_at(std::uint64_t maker, std::uint32_t output, const HostTensor& tensor);
  void forget_kept(std::span<const std::uint64_t> makers) { kept_.forget(makers); }  // locked
  // The plan can want this of the first `count` ops of a site: SONDE_WANT_*. Locked.
  std::uint32_t site_wants(const Site& site, std::uint32_t count);
  // Ops of the types in `by` ("mul, sum") compute the ops of this site. True: the plan selects it, and none of them. Locked.
  bool op_replaced(const Site& site, std::string_view by);
  // A parameter under the host's own name. Not locked.
  void add_parameter(const OpName& name, StepId step, const HostTensor& tensor);

  // --- memory of devices, locked ---
  // Tensors have arrived: submits the records that waited for them. `all`: also those of tensors that never will.
  void advance(bool all = false);

  // --- searches of modes, locked ---
  bool found_enough() const;
  void overflowed(Op& op);
  void threw(Op& op);
  void undecided(Op& op);  // the device still looks at an output
  bool takes_statistics_before(const Op& op) const { return !op.before.empty() && !op.before.front().image; }

  const ReadRules& rules() const { return rules_; }
  bool records_parameter(std::string_view name) { return emits_parameters_ && selector_.decide_parameter(name); }
  Selector& selector() { return selector_; }
  const Selector& selector() const { return selector_; }
  OpNames& names() { return names_; }
  StepBuffer& buffer() { return buffer_; }
  const Counts& counts() const { return counts_; }
  const FoundOps& found() const { return found_; }
  const Watcher& watcher() const { return watcher_; }

 private:
  struct GraphStep {
    std::uint64_t stamp = 0;      // changes whenever a step begins
    std::uint32_t next_task = 0;  // ops of that step so far
    bool announced = false;       // the recorder knows that the step has begun
  };
  // A parameter, or input data, recorded next to the op that reads it.
  struct Companion {
    const OpName* name = nullptr;
    bool in_constants = false;
    std::optional<WholeTensor> whole;  // for a named tensor; data is the part that the op reads
  };

  void push_step(bool began, StepId step);
  void submit_locked(Record&& record);
  void submit_mark(const StepMark& mark);
  void apply_mark(const StepMark& mark);
  void take_late(Record& record);
  void take_late_bytes(TensorRecord& tensor) const;
  void decide(Record& record);
  void submit(Record&& record);
  void fill_record(Op& op, const OpName& name, std::uint32_t site, StepId step);
  std::uint32_t wanted_bits(Op& op, bool flagged);
  std::uint32_t every_op_wants() const;
  bool names_one_of(const Site& site, std::string_view replaced_by);
  std::uint32_t attributes_id(std::uint64_t hash, bool& fresh);

  // op_tensors.cpp
  TensorRecord& add_record(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor);
  void add_tensor(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor) {
    const bool wanted = op.wanted.slot(is_input, slot);
    return overhead_ == nullptr ? add_tensor(op, is_input, slot, tensor, wanted)
                                : add_timed(op, is_input, slot, tensor, wanted);
  }
  void add_tensor(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor, bool wanted);
  void add_wanted(Op& op, const HostTensor& tensor, TensorRecord& record);
  void add_unwanted(Op& op, const HostTensor& tensor, TensorRecord& record);
  void add_timed(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor, bool wanted);
  void relate(const Op& op, const HostTensor& tensor, const ViewIdentity& identity, TensorRecord& record,
              Companion& companion);
  void find_parameter(const Op& op, const HostTensor& tensor, bool with_op, TensorRecord& record, Companion& companion);
  void find_data(const Op& op, const HostTensor& tensor, bool with_op, TensorRecord& record, Companion& companion);
  bool names_parameter(const Op& op, const OpName& name);
  void add_companion(const Op& op, const HostTensor& tensor, const Companion& companion);
  void give_known(const Op& op, const HostTensor& tensor, TensorRecord& record);
  TensorKey key_for(const Op& op, const HostTensor& tensor, bool is_input) const;
  void read(const HostTensor& tensor, const TensorKey& key, TensorRecord& out);
  std::unique_lock<std::mutex> lock_for(const TensorKey& key);
  // Modes: op_modes.cpp
  void keep_before(Op& op, std::uint32_t slot, const HostTensor& tensor);
  void keep_image(Op& op, std::uint32_t slot, const HostTensor& tensor);
  void settle_before(Op& op, bool kept);
  Snapshot fetch(const HostTensor& tensor, const char*& why);
  void watch(Op& op, std::uint32_t slot, const HostTensor& output);
  void write_watched(const Op& op, std::uint32_t watch_id, const HostTensor& tensor, const Watcher::Seen& before,
                     Record&& record);

  const Plan& plan_;
  const SiteTable& sites_;
  std::mutex& lock_;
  const bool overflow_only_ = plan_.overflow_only();    // only ops with a non-finite output are kept
  const bool exception_only_ = plan_.exception_only();  // the op that throws is kept
  const bool buffers_step_ = overflow_only_ || exception_only_;
  Overhead* overhead_ = nullptr;
  const bool reads_ = plan_.saved_data != SavedData::graph;  // true if any tensor is read
  const bool emits_parameters_ = !buffers_step_ && plan_.acl.scene != Scene::watcher;

  Selector selector_;
  OpNames names_;  // before recorder_, whose writer points to names until it has finished
  std::unique_ptr<Recorder> recorder_;
  ReadRules rules_;
  ContentCache cache_;
  NamedTensors named_tensors_;
  StepBuffer buffer_;
  LateRecords late_;
  std::atomic<bool> reads_late_{false};  // a tensor was read on a device: records keep their order
  KeptOutputs kept_;
  std::optional<Selector> forecast_;  // for site_wants(): its answers do not count as hits of the plan's entries
  Watcher watcher_;
  FoundOps found_;
  Counts counts_;
  std::uint32_t next_attributes_ = 1;
  std::unordered_map<std::uint64_t, std::uint32_t> attribute_ids_;  // by the host's hash
  PerGraph<GraphStep> steps_;
  std::uint64_t stamp_ = 0;
};

}  // namespace sonde
