// What OpRecorder does in single modes: values before an op overwrites them, and outputs that a watcher reads again.
#include "ground/base/clock.h"
#include "ground/model/not_read.h"
#include "record/capture/devices.h"
#include "record/capture/op_recorder.h"

namespace sonde {
namespace {

std::uint64_t fingerprint_of(const HostTensor& tensor) { return tensor.access->fingerprint(tensor.view); }

}  // namespace

// --- what an op overwrites, where it is decided afterwards whether the op is recorded ---------------------------------

// Statistics are taken at once, which costs less than a copy. Bytes and hashes need a copy.
void OpRecorder::input_before(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  if (buffers_step_) {
    keep_before(op, slot, tensor);
  } else {
    input(op, slot, tensor);
  }
}

void OpRecorder::keep_before(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  const bool on_device = tensor.handle != nullptr;  // its bytes are read in any case, and dropped if nothing is found
  if (!on_device &&
      (plan_.wants_tensors() || plan_.wants(Category::md5) || plan_.wants(Category::sha1) || rules_.reshapes)) {
    return keep_image(op, slot, tensor);
  }
  add_tensor(op, true, slot, tensor, true);
  if (!reads_ || op.record.tensors.back().skipped != nullptr) return;
  op.before.emplace_back().index = op.record.tensors.size() - 1;
}

void OpRecorder::keep_image(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  TensorRecord& record = add_record(op, true, slot, tensor);
  const ViewIdentity identity = identity_of(tensor);
  const TensorKey key = record.skipped == nullptr ? key_of(tensor) : TensorKey();
  Companion none;  // these modes record no parameters beside ops
  {
    const std::lock_guard guard(lock_);
    relate(op, tensor, identity, record, none);
    if (record.skipped == nullptr && cache_.find(key).uninitialised) record.skipped = kUninitialised;
  }
  if (record.skipped != nullptr) return;
  if (tensor.view.elements() == 0) {
    record.skipped = "empty tensor";
    return;
  }
  BlockPtr image = recorder_->blocks().take(tensor.view.bytes());
  if (image == nullptr) {
    record.skipped = "no memory for its value before the operator";
    return;
  }
  Snapshot& snapshot = op.before.emplace_back(take_snapshot(tensor, key, std::move(image)));
  snapshot.index = op.record.tensors.size() - 1;
}

void OpRecorder::settle_before(Op& op, bool kept) {
  for (const Snapshot& snapshot : op.before) {
    TensorRecord& record = op.record.tensors[snapshot.index];
    record.wanted = kept;
    if (!kept) record.bytes.reset();
    if (!kept || snapshot.image == nullptr) continue;
    const HostTensor before = snapshot.tensor(record);
    read(before, key_of(before), record);
  }
  op.before.clear();
}

// --- watcher ---------------------------------------------------------------------------------------------------------

// A tensor of a device as it is now. The watcher is the one mode that waits for the device at each operator: what it looks
// for may be gone later. No image: `why`.
Snapshot OpRecorder::fetch(const HostTensor& tensor, const char*& why) {
  Snapshot snapshot;
  snapshot.image = fetch_from_device(recorder_->blocks(), tensor, why);
  snapshot.shape = Dims(tensor.view.shape);
  snapshot.strides = c_order_strides(tensor.view.shape);
  return snapshot;
}

// A watched op ran. Later reads are compared with the values that output() has just recorded.
void OpRecorder::watch(Op& op, std::uint32_t slot, const HostTensor& output) {
  const TensorRecord& record = op.record.tensors.back();
  if (record.content == 0) return;
  const char* why = nullptr;
  const Snapshot on_host = output.access == nullptr ? fetch(output, why) : Snapshot();
  if (output.access == nullptr && on_host.image == nullptr) {
    const std::lock_guard guard(lock_);
    const std::uint64_t stamp = steps_[op.record.step.graph].stamp;
    return watcher_.stopped(watcher_.ran(*op.record.op, op.record.step, stamp), why);
  }
  Watcher::Seen seen;
  seen.fingerprint = on_host.image ? fingerprint_of(on_host.tensor(record)) : fingerprint_of(output);
  seen.content = content_of(record);
  const std::lock_guard guard(lock_);
  const std::uint64_t stamp = steps_[op.record.step.graph].stamp;
  Watcher::Watched* watched = watcher_.find(op.record.op->id);
  if (watched == nullptr || watched->stamp != stamp) {
    watched = &watcher_.ran(*op.record.op, op.record.step, stamp);
  }
  watched->seen[slot] = std::move(seen);
}

bool OpRecorder::watched(Op& op, std::uint32_t watch_id, std::uint32_t slot, const HostTensor& tensor) {
  Watcher::Seen before;
  Record record;
  {
    const std::lock_guard guard(lock_);
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
    write_watched(op, watch_id, tensor, before, std::move(record));
    return true;
  }
  const char* why = nullptr;
  const Snapshot on_host = fetch(tensor, why);
  if (on_host.image == nullptr) {
    const std::lock_guard guard(lock_);
    if (Watcher::Watched* watched = watcher_.find(watch_id)) watcher_.stopped(*watched, why);
    return false;
  }
  write_watched(op, watch_id, on_host.tensor(out), before, std::move(record));
  return true;
}

// The watcher looks for changes without a known write, so it reads this memory in any case.
void OpRecorder::write_watched(const Op& op, std::uint32_t watch_id, const HostTensor& tensor,
                               const Watcher::Seen& before, Record&& record) {
  TensorRecord& out = record.tensors.front();
  const std::uint64_t fingerprint = fingerprint_of(tensor);
  const bool same = fingerprint == before.fingerprint;
  // A container is a file of its own. The first one is written even if nothing changed; later ones with the same bytes
  // are links to it.
  const bool contained = rules_.bytes_each_time;
  if (!same || (contained && before.written == kNoSequence)) {
    TensorKey unknown = key_of(tensor);
    unknown.storage = 0;
    read(tensor, unknown, out);
  }
  const Content now = content_of(out);
  if (same) give_content(before.content, out);
  if (contained && !out.bytes) record.repeats = before.written;
  record.sequence = recorder_->next_sequence();
  {
    const std::lock_guard guard(lock_);
    Watcher::Watched* watched = watcher_.find(watch_id);
    if (watched != nullptr && !same) {
      watched->seen[out.slot].fingerprint = fingerprint;
      watched->seen[out.slot].content = now;
      watcher_.changed(*watched, out.slot, place_text(*op.record.op, sites_.at(op.record.site)));
    }
    if (watched != nullptr && contained && out.bytes) watched->seen[out.slot].written = record.sequence;
  }
  submit(std::move(record));
}

}  // namespace sonde
