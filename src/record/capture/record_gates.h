// RecordGates: the gates that a finished record passes on its way to the writer.
//
//   submit(record)  ->  device: waits in the order of the run until a device has read its tensors (late_records.h)
//                   ->  search: waits for the step's end if a mode keeps a step only when it finds something in it
//                   ->  Recorder::push
//
// Most plans have no search, and most records no tensor of a device: these take no lock.
#pragma once

#include <atomic>
#include <mutex>

#include "plan/config/plan.h"
#include "record/capture/late_records.h"
#include "record/capture/modes/found_ops.h"
#include "record/capture/modes/step_buffer.h"
#include "record/capture/op.h"
#include "record/capture/session_lock.h"
#include "record/capture/sites.h"
#include "record/writer/recorder.h"

namespace sonde {

class RecordGates {
 public:
  // All must outlive it.
  RecordGates(const Plan& plan, const SiteTable& sites, std::mutex& lock);
  void open(Recorder& recorder) REQUIRES(session_lock);  // before the first record

  bool overflow_only() const { return overflow_only_; }    // only ops with a non-finite output are kept
  bool exception_only() const { return exception_only_; }  // the op that throws is kept
  bool searches() const { return searches_; }

  void submit(Record&& record) EXCLUDES(session_lock);
  void submit_locked(Record&& record) REQUIRES(session_lock);
  void mark(const StepMark& mark) REQUIRES(session_lock);
  // A definition for ops of this graph; without a search it needs no lock.
  void define(std::uint32_t graph, Attributes&& attributes) EXCLUDES(session_lock);
  void define_locked(std::uint32_t graph, Attributes&& attributes) REQUIRES(session_lock);
  void forget_attributes() REQUIRES(session_lock) { buffer_.forget_attributes(); }

  // A tensor was given to a device to read: from now on records keep their order.
  void expect_late() { reads_late_ = true; }
  // Tensors have arrived: passes the records that waited for them. `all`: also those of tensors that never will.
  void advance(bool all = false) REQUIRES(session_lock);

  // The search: what is found keeps the step.
  bool found_enough() const REQUIRES(session_lock);
  void overflowed(Op& op) REQUIRES(session_lock);
  void threw(Op& op) REQUIRES(session_lock);
  void undecided(Op& op);  // the device still looks at an output
  const FoundOps& found() const REQUIRES(session_lock) { return found_; }

  void skip_dropped() REQUIRES(session_lock) { buffer_.skip_dropped(); }  // before the recorder finishes
  void clear() REQUIRES(session_lock);

 private:
  void apply(const StepMark& mark) REQUIRES(session_lock);
  void take_late(Record& record) REQUIRES(session_lock);
  void take_late_bytes(TensorRecord& tensor) const;
  void decide(Record& record) REQUIRES(session_lock);
  void keep_overflow(Record& record) REQUIRES(session_lock);

  const Plan& plan_;
  const SiteTable& sites_;
  std::mutex& lock_;
  const bool overflow_only_ = plan_.overflow_only(), exception_only_ = plan_.exception_only();
  const bool searches_ = plan_.searches();
  Recorder* recorder_ = nullptr;
  std::atomic<bool> reads_late_{false};
  LateRecords late_ GUARDED_BY_SESSION;
  StepBuffer buffer_ GUARDED_BY_SESSION;
  FoundOps found_ GUARDED_BY_SESSION;
};

}  // namespace sonde
