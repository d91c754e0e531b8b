#include "record/capture/op_tensors.h"

#include "ground/base/clock.h"
#include "ground/model/not_read.h"

namespace sonde {
namespace {

// A few bytes can be expanded to terabytes, which no reader of the dump could open.
bool is_huge(const HostTensor& tensor, std::uint64_t budget_bytes) {
  if (!has_countable_bytes(tensor.view)) return true;
  const std::uint64_t bytes = tensor.view.bytes();
  return bytes > budget_bytes && tensor.storage_data != nullptr && bytes > tensor.storage_bytes;
}

Record parameter_record(const OpName& name, StepId step, const HostTensor& tensor, std::uint32_t placement,
                        Recorder& recorder) {
  Record record;
  record.tensors = recorder.spare_tensors();
  record.kind = RecordKind::parameter;
  record.op = &name;
  record.step = step;
  record.thread = thread_ordinal();
  record.timestamp_us = now_us();
  TensorRecord& out = record.tensors.emplace_back();
  out.dtype = tensor.view.dtype;
  out.set_shape(Dims(tensor.view.shape));
  out.parameter = name.id;
  out.placement = placement;
  out.timestamp_us = record.timestamp_us;
  return record;
}

}  // namespace

OpTensors::OpTensors(const Plan& plan, const SiteTable& sites, Selector& selector, OpNames& names, GraphSteps& steps,
                     RecordGates& gates, std::mutex& lock)
    : plan_(plan),
      names_(names),
      gates_(gates),
      lock_(lock),
      rules_(plan),
      companions_(plan, sites, selector, names, steps, cache_) {}

void OpTensors::open(Recorder& recorder) {
  recorder_ = &recorder;
  companions_.open(recorder.layout());
  rules_.bytes_each_time = ReadRules::has_bytes_each_time(plan_, recorder.layout());
  rules_.ring = rules_.needs_bytes && !rules_.bytes_each_time ? recorder.ring() : nullptr;
}

void OpTensors::clear() {
  cache_.release();
  companions_.clear();
  kept_.clear();
}

// Records the facts of a tensor that need neither its elements nor the lock.
TensorRecord& OpTensors::add_record(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor) const {
  TensorRecord& record = op.record.tensors.emplace_back();
  record.is_input = is_input;
  record.slot = slot;
  record.dtype = tensor.view.dtype;
  record.copy_shape(tensor.view.shape);
  record.wanted = op.wanted.slot(is_input, slot);
  if (is_input) record.constant = constant_of(tensor);
  record.skipped = tensor.skip;
  if (record.skipped == nullptr && is_huge(tensor, plan_.sonde.budget_bytes)) {
    record.skipped = "an expanded view larger than budget_bytes";
  }
  return record;
}

void OpTensors::add(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor, bool wanted) {
  const std::uint64_t begin = timed_ ? now_ns() : 0;
  TensorRecord& record = add_record(op, is_input, slot, tensor);
  add_elements(op, tensor, record, wanted);
  if (!timed_) return;
  op.read_nanoseconds += now_ns() - begin;
  if (record.bytes) op.copied_bytes += record.bytes->bytes;
}

// Most tensors of a step are not wanted, if the plan selects few operators: only what is known already is recorded.
void OpTensors::add_elements(Op& op, const HostTensor& tensor, TensorRecord& record, bool wanted) {
  const ViewIdentity identity = identity_of(tensor);
  std::optional<TensorReading> reading;
  if (wanted && reads_ && record.skipped == nullptr) {
    reading.emplace(rules_, tensor, key_for(op, tensor, record.is_input), record, op.depth);
  }
  Companion companion;
  bool is_unknown = false;
  {
    const SessionLock lock(lock_);
    relate(op, tensor, identity, record, companion);
    if (reading && rules_.asks_for_writers()) reading->set_writer(companions_.writer_of(op, tensor));
    if (companion.name == nullptr) is_unknown = look_up(op, tensor, reading, record);
  }
  if (companion.name != nullptr) is_unknown = add_companion(op, tensor, companion, reading, record);
  if (is_unknown && read_elements(tensor, *reading)) publish(*reading);
}

// Takes what is known of a tensor. True if its elements must be read.
bool OpTensors::look_up(const Op& op, const HostTensor& tensor, std::optional<TensorReading>& reading,
                        TensorRecord& record) {
  if (record.skipped == nullptr && companions_.is_being_filled(tensor)) {
    record.skipped = kUninitialised;
    return false;
  }
  if (reading) return reading->look_up(cache_, true);
  if (!reads_ || record.skipped != nullptr || !cache_.knows_contents(tensor.storage)) return false;
  TensorReading::give_known(cache_, key_for(op, tensor, record.is_input), record);
  return false;
}

TensorKey OpTensors::key_for(const Op& op, const HostTensor& tensor, bool is_input) const {
  TensorKey key = key_of(tensor);
  if (is_input && plan_.sonde.reread) key.storage = 0;
  // Its bytes may be dropped with the record, so no other may rely on them. Those of a device stay with its LateReading.
  if (op.record.undecided && tensor.handle == nullptr) key.storage = 0;
  return key;
}

// Records it before the op's own tensor, which is then found to be equal: true if that must be read, too.
bool OpTensors::add_companion(const Op& op, const HostTensor& tensor, const Companion& companion,
                              std::optional<TensorReading>& reading, TensorRecord& record) {
  const HostTensor& source = companion.whole ? companion.whole->tensor() : tensor;
  Record beside = parameter_record(*companion.name, op.record.step, source, companion.placement, *recorder_);
  beside.in_constants = companion.in_constants;
  beside.reader = op.record.op;
  std::optional<TensorReading> whole;
  if (reads_) whole.emplace(rules_, source, key_of(source), beside.tensors.front());
  if (whole && rules_.asks_for_writers()) whole->set_writer(companion.writer);
  const bool was_read = whole && look_up_alone(*whole) && read_elements(source, *whole);
  bool is_unknown = false;
  {
    const SessionLock lock(lock_);
    if (was_read) whole->publish(cache_);
    is_unknown = look_up(op, tensor, reading, record);
  }
  beside.sequence = recorder_->next_sequence();
  gates_.submit(std::move(beside));
  return is_unknown;
}

// Sets the origin of an input, or marks an output as made here; its name, and the record under that name.
void OpTensors::relate(const Op& op, const HostTensor& tensor, const ViewIdentity& identity, TensorRecord& record,
                       Companion& companion) {
  const std::uint64_t own = op.record.sequence;
  record.placement = companions_.placement_of(tensor);
  if (!record.is_input) {
    cache_.made(identity, {own, record.slot});
    if (tensor.uninitialised) cache_.allocated(tensor.storage, tensor.storage_data, tensor.storage_bytes);
    return;
  }
  const Origin origin = cache_.origin_of(identity, own);
  if (origin.sequence != own) {
    record.source = origin.sequence;
    record.source_slot = origin.slot;
    if (op.wanted.producers) names_.add_producer(origin.sequence);
  }
  if (record.skipped == nullptr) companions_.find(op, tensor, record, companion);
}

bool OpTensors::add_unread_input(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  TensorRecord& record = add_record(op, true, slot, tensor);
  const ViewIdentity identity = identity_of(tensor);
  Companion none;  // the modes that ask for it record no parameters beside ops
  const SessionLock lock(lock_);
  relate(op, tensor, identity, record, none);
  if (record.skipped != nullptr) return false;
  if (tensor.view.elements() == 0) record.skipped = "empty tensor";
  const TensorKey key = key_of(tensor);
  if (cache_.find(key).uninitialised || (tensor.observed && cache_.is_unwritten(tensor.storage, key)))
    record.skipped = kUninitialised;
  return record.skipped == nullptr;
}

void OpTensors::read(const HostTensor& tensor, const TensorKey& key, TensorRecord& out) {
  TensorReading reading(rules_, tensor, key, out);
  if (look_up_alone(reading) && read_elements(tensor, reading)) publish(reading);
}

// Without the lock. False: the read failed, and the record says why.
bool OpTensors::read_elements(const HostTensor& tensor, TensorReading& reading) {
  if (tensor.handle != nullptr) gates_.expect_late();
  return reading.read(*recorder_);
}

// A tensor without storage is never considered known: nothing of it is shared, and no lock is needed.
bool OpTensors::look_up_alone(TensorReading& reading) {
  const auto lock = lock_for(reading.key());
  return reading.look_up(cache_);
}

void OpTensors::publish(TensorReading& reading) {
  const auto lock = lock_for(reading.key());
  reading.publish(cache_);
}

std::unique_lock<std::mutex> OpTensors::lock_for(const TensorKey& key) {
  return key.storage != 0 ? std::unique_lock(lock_) : std::unique_lock<std::mutex>();
}

void OpTensors::add_parameter(const OpName& name, StepId step, const HostTensor& tensor) {
  Record record = parameter_record(name, step, tensor, 0, *recorder_);
  if (reads_) read(tensor, key_of(tensor), record.tensors.front());
  record.sequence = recorder_->next_sequence();
  gates_.submit(std::move(record));
}

// --- the host's memory ---

void OpTensors::wrote(std::uint64_t storage, std::uint64_t sequence) {
  const SessionLock lock(lock_);
  cache_.wrote(storage, sequence);
}

void OpTensors::wrote(const HostTensor& part, std::uint64_t sequence) {
  const TensorKey key = key_of(part);
  const SessionLock lock(lock_);
  cache_.wrote(part.storage, key, sequence);
}

void OpTensors::allocated(const HostTensor& tensor, std::uint64_t kept) {
  const FreshBlock block{tensor.storage, tensor.storage_data, tensor.storage_bytes, kept};
  cache_.allocated(block.storage, block.data, block.bytes, block.kept);
  if (allocated_last_.size() < kMostAllocated) allocated_last_.push_back(block);
}

void OpTensors::take_allocated(const OpTensors& before) {
  for (const FreshBlock& block : before.allocated_last_) {
    cache_.allocated(block.storage, block.data, block.bytes, block.kept);
  }
}

void OpTensors::storage_changed(std::uint64_t storage) {
  if (storage == 0) {
    cache_.forget_contents();
  } else {
    cache_.wrote(storage, kNoSequence);
  }
}

void OpTensors::storages_freed(std::span<const std::uint64_t> storages) {
  for (const std::uint64_t storage : storages) {
    cache_.forget(storage);
    companions_.freed(storage);
  }
}

// --- compiled graphs ---

std::uint64_t OpTensors::keep(const Op& op) {
  const SessionLock lock(lock_);
  kept_.keep(op.record);
  return op.record.sequence;
}

void OpTensors::input_of(Op& op, std::uint32_t slot, std::uint64_t maker, std::uint32_t output) {
  TensorRecord& record = op.record.tensors.emplace_back();
  {
    const SessionLock lock(lock_);
    kept_.give(maker, output, record);
    if (op.wanted.producers) names_.add_producer(maker);
  }
  record.is_input = true;
  record.slot = slot;
  record.wanted = op.wanted.slot(true, slot);
  record.source = maker;
  record.source_slot = output;
}

void OpTensors::result_at(std::uint64_t maker, std::uint32_t output, const HostTensor& tensor) {
  cache_.wrote(tensor.storage, maker);
  cache_.made(identity_of(tensor), {maker, output});
}

}  // namespace sonde
