// WatchedOutputs: the outputs that a watcher reads again after other ops (acl.json, scene "watcher").
//
//   ran(op, slot, output);                   a watched op has run, and its output was recorded
//   read_again(op, watch_id, slot, tensor);  after another op: is it still the same?
#pragma once

#include <cstdint>
#include <mutex>

#include "record/capture/graph_step.h"
#include "record/capture/modes/watcher.h"
#include "record/capture/op.h"
#include "record/capture/op_names.h"
#include "record/capture/op_tensors.h"
#include "record/capture/record_gates.h"
#include "record/capture/session_lock.h"
#include "record/capture/sites.h"
#include "record/writer/recorder.h"

namespace sonde {

class WatchedOutputs {
 public:
  // All must outlive it.
  WatchedOutputs(const SiteTable& sites, OpNames& names, GraphSteps& steps, OpTensors& tensors, RecordGates& gates,
                 std::mutex& lock);
  void open(Recorder& recorder) { recorder_ = &recorder; }

  // The output is the last tensor of the op's record.
  void ran(Op& op, std::uint32_t slot, const HostTensor& output) EXCLUDES(session_lock);
  // False: it need not be read again.
  bool read_again(Op& op, std::uint32_t watch_id, std::uint32_t slot, const HostTensor& tensor) EXCLUDES(session_lock);
  const Watcher& watcher() const REQUIRES(session_lock) { return watcher_; }

 private:
  Snapshot fetch(const HostTensor& tensor, const char*& why);
  void write(const Op& op, std::uint32_t watch_id, const HostTensor& tensor, const Watcher::Seen& before,
             Record&& record) EXCLUDES(session_lock);

  const SiteTable& sites_ GUARDED_BY_SESSION;
  OpNames& names_ GUARDED_BY_SESSION;
  GraphSteps& steps_ GUARDED_BY_SESSION;
  OpTensors& tensors_;
  RecordGates& gates_;
  std::mutex& lock_;
  Recorder* recorder_ = nullptr;
  Watcher watcher_ GUARDED_BY_SESSION;
};

}  // namespace sonde
