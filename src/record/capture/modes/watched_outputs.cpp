#include "record/capture/modes/watched_outputs.h"

#include <utility>

#include "ground/base/clock.h"
#include "record/capture/devices.h"

namespace sonde {
namespace {

std::uint64_t fingerprint_of(const HostTensor& tensor) { return tensor.access->fingerprint(tensor.view); }

}  // namespace

WatchedOutputs::WatchedOutputs(const SiteTable& sites, OpNames& names, GraphSteps& steps, OpTensors& tensors,
                               RecordGates& gates, std::mutex& lock)
    : sites_(sites), names_(names), steps_(steps), tensors_(tensors), gates_(gates), lock_(lock) {}

// A tensor of a device as it is now. The watcher is the one mode that waits for the device at each operator: what it looks
// for may be gone later. No image: `why`.
Snapshot WatchedOutputs::fetch(const HostTensor& tensor, const char*& why) {
  Snapshot snapshot;
  snapshot.image = fetch_from_device(recorder_->blocks(), tensor, why);
  snapshot.shape = Dims(tensor.view.shape);
  snapshot.strides = c_order_strides(tensor.view.shape);
  return snapshot;
}

// A watched op ran. Later reads are compared with the values that were just recorded.
void WatchedOutputs::ran(Op& op, std::uint32_t slot, const HostTensor& output) {
  const TensorRecord& record = op.record.tensors.back();
  if (record.content == 0) return;
  const char* why = nullptr;
  const Snapshot on_host = output.access == nullptr ? fetch(output, why) : Snapshot();
  if (output.access == nullptr && on_host.image == nullptr) {
    const SessionLock lock(lock_);
    const std::uint64_t stamp = steps_[op.record.step.graph].stamp;
    return watcher_.stopped(watcher_.ran(*op.record.op, op.record.step, stamp), why);
  }
  Watcher::Seen seen;
  seen.fingerprint = on_host.image ? fingerprint_of(on_host.tensor(record)) : fingerprint_of(output);
  seen.content = content_of(record);
  const SessionLock lock(lock_);
  const std::uint64_t stamp = steps_[op.record.step.graph].stamp;
  Watcher::Watched* watched = watcher_.find(op.record.op->id);
  if (watched == nullptr || watched->stamp != stamp) {
    watched = &watcher_.ran(*op.record.op, op.record.step, stamp);
  }
  watched->seen[slot] = std::move(seen);
}

bool WatchedOutputs::read_again(Op& op, std::uint32_t watch_id, std::uint32_t slot, const HostTensor& tensor) {
  Watcher::Seen before;
  Record record;
  {
    const SessionLock lock(lock_);
    Watcher::Watched* watched = watcher_.find(watch_id);
    if (watched == nullptr || watched->stamp != steps_[watched->step.graph].stamp) return false;
    if (watched->step != op.record.step) return true;
    if (tensor.skip != nullptr) {
      watcher_.stopped(*watched, tensor.skip);
      return false;
    }
    const auto seen = watched->seen.find(slot);
    if (seen == watched->seen.end()) return false;
    before = seen->second;
    record.op = &names_.pair(*op.record.op, *watched->name);
    record.reader = watched->name;  // the model of the watched op decides the file's directory
  }
  record.kind = RecordKind::parameter;
  record.step = op.record.step;
  record.site = op.record.site;
  record.thread = op.record.thread;
  record.task_id = op.record.task_id;
  record.timestamp_us = now_us();
  TensorRecord& out = record.tensors.emplace_back();
  out.slot = slot;
  out.dtype = tensor.view.dtype;
  out.set_shape(Dims(tensor.view.shape));
  out.timestamp_us = record.timestamp_us;
  if (tensor.access != nullptr) {
    write(op, watch_id, tensor, before, std::move(record));
    return true;
  }
  const char* why = nullptr;
  const Snapshot on_host = fetch(tensor, why);
  if (on_host.image == nullptr) {
    const SessionLock lock(lock_);
    if (Watcher::Watched* watched = watcher_.find(watch_id)) watcher_.stopped(*watched, why);
    return false;
  }
  write(op, watch_id, on_host.tensor(out), before, std::move(record));
  return true;
}

// The watcher looks for changes without a known write, so it reads this memory in any case.
void WatchedOutputs::write(const Op& op, std::uint32_t watch_id, const HostTensor& tensor, const Watcher::Seen& before,
                           Record&& record) {
  TensorRecord& out = record.tensors.front();
  const std::uint64_t fingerprint = fingerprint_of(tensor);
  const bool same = fingerprint == before.fingerprint;
  // A container is a file of its own. The first one is written even if nothing changed; later ones with the same bytes
  // are links to it.
  const bool contained = tensors_.rules().bytes_each_time;
  if (!same || (contained && before.written == kNoSequence)) {
    TensorKey unknown = key_of(tensor);
    unknown.storage = 0;
    tensors_.read(tensor, unknown, out);
  }
  const Content now = content_of(out);
  if (same) give_content(before.content, out);
  if (contained && !out.bytes) record.repeats = before.written;
  record.sequence = recorder_->next_sequence();
  {
    const SessionLock lock(lock_);
    Watcher::Watched* watched = watcher_.find(watch_id);
    if (watched != nullptr && !same) {
      watched->seen[out.slot].fingerprint = fingerprint;
      watched->seen[out.slot].content = now;
      watcher_.changed(*watched, out.slot, place_text(*op.record.op, sites_.at(op.record.site)));
    }
    if (watched != nullptr && contained && out.bytes) watched->seen[out.slot].written = record.sequence;
  }
  gates_.submit(std::move(record));
}

}  // namespace sonde
