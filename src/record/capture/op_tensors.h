// OpTensors: makes the records of an op's tensors: their origins, names and elements. Knows the memory of the host: what
// was read of it, and which op made it.
//
// The lock is taken twice for a tensor that must be read, before it is read and afterwards; once for any other. A companion
// takes it once more: what it found is published when the op's own tensor is looked up.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "plan/config/plan.h"
#include "plan/config/selector.h"
#include "record/capture/companions.h"
#include "record/capture/content_cache.h"
#include "record/capture/host_tensor.h"
#include "record/capture/kept_outputs.h"
#include "record/capture/op.h"
#include "record/capture/op_names.h"
#include "record/capture/record_gates.h"
#include "record/capture/session_lock.h"
#include "record/capture/tensor_reading.h"
#include "record/writer/recorder.h"

namespace sonde {

class OpTensors {
 public:
  // All must outlive it.
  OpTensors(const Plan& plan, const SiteTable& sites, Selector& selector, OpNames& names, GraphSteps& steps,
            RecordGates& gates, std::mutex& lock);
  void open(Recorder& recorder) REQUIRES(session_lock);  // before the first op
  void measure_time() { timed_ = true; }                 // Op::read_nanoseconds and copied_bytes are wanted
  void clear() REQUIRES(session_lock);
  // Tensors that several ranks have are written by one, and this is rank `own`.
  void share(std::uint32_t own) REQUIRES(session_lock) { rules_.own_rank = own; }

  const ReadRules& rules() const { return rules_; }
  bool reads() const { return reads_; }  // true if any tensor is read
  ContentCache& cache() REQUIRES(session_lock) { return cache_; }
  Companions& companions() REQUIRES(session_lock) { return companions_; }

  // Records a tensor of an op: its elements if `wanted`, else what is known of them.
  void add(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor, bool wanted) EXCLUDES(session_lock);
  // Records an input whose elements its caller reads. False if they are not to be read: the record says why.
  bool add_unread_input(Op& op, std::uint32_t slot, const HostTensor& tensor) EXCLUDES(session_lock);
  // Fills `out` with the elements of `tensor`.
  void read(const HostTensor& tensor, const TensorKey& key, TensorRecord& out) EXCLUDES(session_lock);
  // A parameter under the host's own name.
  void add_parameter(const OpName& name, StepId step, const HostTensor& tensor) EXCLUDES(session_lock);

  // An op has written the storage; kNoSequence: one that is not recorded.
  void wrote(std::uint64_t storage, std::uint64_t sequence) EXCLUDES(session_lock);
  void wrote(const HostTensor& part, std::uint64_t sequence) EXCLUDES(session_lock);  // and nothing else of its storage
  // Its storage is fresh memory, but for the first bytes.
  void allocated(const HostTensor& tensor, std::uint64_t kept) REQUIRES(session_lock);
  void op_begins() REQUIRES(session_lock) { allocated_last_.clear(); }
  // Memory that `before` has since its last op: no op can have written it.
  void take_allocated(const OpTensors& before) REQUIRES(session_lock);
  void storage_changed(std::uint64_t storage) REQUIRES(session_lock);  // by an op that is not recorded; 0: anything
  void storages_freed(std::span<const std::uint64_t> storages) REQUIRES(session_lock);

  // Compiled graphs: the op's outputs are kept for input_of(); returns its number.
  std::uint64_t keep(const Op& op) EXCLUDES(session_lock);
  void input_of(Op& op, std::uint32_t slot, std::uint64_t maker, std::uint32_t output) EXCLUDES(session_lock);
  // An output of an op lies in other memory than it was reported with.
  void result_at(std::uint64_t maker, std::uint32_t output, const HostTensor& tensor) REQUIRES(session_lock);
  void forget_kept(std::span<const std::uint64_t> makers) REQUIRES(session_lock) { kept_.forget(makers); }

 private:
  TensorRecord& add_record(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor) const;
  void add_elements(Op& op, const HostTensor& tensor, TensorRecord& record, bool wanted) EXCLUDES(session_lock);
  void relate(const Op& op, const HostTensor& tensor, const ViewIdentity& identity, TensorRecord& record,
              Companion& companion) REQUIRES(session_lock);
  bool look_up(const Op& op, const HostTensor& tensor, std::optional<TensorReading>& reading, TensorRecord& record)
      REQUIRES(session_lock);
  bool add_companion(const Op& op, const HostTensor& tensor, const Companion& companion,
                     std::optional<TensorReading>& reading, TensorRecord& record) EXCLUDES(session_lock);
  bool read_elements(const HostTensor& tensor, TensorReading& reading);
  // The compiler cannot follow a lock that is taken for some tensors only.
  bool look_up_alone(TensorReading& reading) NO_THREAD_SAFETY_ANALYSIS;
  void publish(TensorReading& reading) NO_THREAD_SAFETY_ANALYSIS;
  std::unique_lock<std::mutex> lock_for(const TensorKey& key);
  TensorKey key_for(const Op& op, const HostTensor& tensor, bool is_input) const;

  const Plan& plan_;
  OpNames& names_ GUARDED_BY_SESSION;
  RecordGates& gates_;
  std::mutex& lock_;
  const bool reads_ = plan_.saved_data != SavedData::graph;
  bool timed_ = false;
  ReadRules rules_;
  Recorder* recorder_ = nullptr;
  ContentCache cache_ GUARDED_BY_SESSION;
  Companions companions_ GUARDED_BY_SESSION;
  KeptOutputs kept_ GUARDED_BY_SESSION;

  struct FreshBlock {
    std::uint64_t storage;
    const std::byte* data;
    std::uint64_t bytes, kept;
  };
  static constexpr std::size_t kMostAllocated = 4096;          // a model has fewer parameters that are gathered at once
  std::vector<FreshBlock> allocated_last_ GUARDED_BY_SESSION;  // since the last op
};

}  // namespace sonde
