// The part of OpRecorder that reads the tensors of an op: their origins, names and elements.
#include <fmt/format.h>

#include "ground/base/clock.h"
#include "ground/model/data_name.h"
#include "record/capture/op_recorder.h"

namespace sonde {
namespace {

// A few bytes can be expanded to terabytes, which no reader of the dump could open.
bool is_huge(const HostTensor& tensor, std::uint64_t budget_bytes) {
  if (!has_countable_bytes(tensor.view)) return true;
  const std::uint64_t bytes = tensor.view.bytes();
  return bytes > budget_bytes && tensor.storage_data != nullptr && bytes > tensor.storage_bytes;
}

Record parameter_record(const OpName& name, StepId step, const HostTensor& tensor, Recorder& recorder) {
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
  out.timestamp_us = record.timestamp_us;
  return record;
}

}  // namespace

// Records the facts of a tensor that need neither its elements nor the lock.
TensorRecord& OpRecorder::add_record(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor) {
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

void OpRecorder::add_tensor(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor, bool wanted) {
  TensorRecord& record = add_record(op, is_input, slot, tensor);
  if (wanted) {
    add_wanted(op, tensor, record);
  } else {
    add_unwanted(op, tensor, record);
  }
}

// Most tensors of a step, if the plan selects few operators: only what is known already.
void OpRecorder::add_unwanted(Op& op, const HostTensor& tensor, TensorRecord& record) {
  const ViewIdentity identity = identity_of(tensor);
  Companion companion;
  {
    const std::lock_guard guard(lock_);
    relate(op, tensor, identity, record, companion);
    if (companion.name == nullptr) return give_known(op, tensor, record);
  }
  add_companion(op, tensor, companion);
  const std::lock_guard guard(lock_);
  give_known(op, tensor, record);
}

// Locked.
void OpRecorder::give_known(const Op& op, const HostTensor& tensor, TensorRecord& record) {
  if (!reads_ || record.skipped != nullptr || !cache_.knows_contents(tensor.storage)) return;
  TensorReading::give_known(cache_, key_for(op, tensor, record.is_input), record);
}

TensorKey OpRecorder::key_for(const Op& op, const HostTensor& tensor, bool is_input) const {
  TensorKey key = key_of(tensor);
  if (is_input && plan_.sonde.reread) key.storage = 0;
  // Its bytes may be dropped with the record, so no other may rely on them. Those of a device stay with its LateReading.
  if (op.record.undecided && tensor.handle == nullptr) key.storage = 0;
  return key;
}

void OpRecorder::add_wanted(Op& op, const HostTensor& tensor, TensorRecord& record) {
  const ViewIdentity identity = identity_of(tensor);
  std::optional<TensorReading> reading;
  if (reads_ && record.skipped == nullptr) {
    reading.emplace(rules_, tensor, key_for(op, tensor, record.is_input), record, op.depth);
  }
  Companion companion;
  bool to_read = false;
  {
    const std::lock_guard guard(lock_);
    relate(op, tensor, identity, record, companion);
    to_read = reading && companion.name == nullptr && reading->look_up(cache_, true);
  }
  if (companion.name != nullptr) {
    add_companion(op, tensor, companion);
    const std::lock_guard guard(lock_);
    to_read = reading && reading->look_up(cache_, true);
  }
  if (!to_read) return;
  if (tensor.handle != nullptr) reads_late_ = true;
  if (!reading->read(*recorder_)) return;
  const std::unique_lock guard = lock_for(reading->key());
  reading->publish(cache_);
}

void OpRecorder::add_timed(Op& op, bool is_input, std::uint32_t slot, const HostTensor& tensor, bool wanted) {
  const std::uint64_t begin = now_ns();
  add_tensor(op, is_input, slot, tensor, wanted);
  op.read_nanoseconds += now_ns() - begin;
  if (const BlockPtr& bytes = op.record.tensors.back().bytes) op.copied_bytes += bytes->bytes;
}

// Locked. Sets the origin of an input, or marks an output as made here; its name, and the record under that name.
void OpRecorder::relate(const Op& op, const HostTensor& tensor, const ViewIdentity& identity, TensorRecord& record,
                        Companion& companion) {
  const std::uint64_t own = op.record.sequence;
  if (!record.is_input) {
    cache_.made(identity, {own, record.slot});
    if (tensor.uninitialised) cache_.uninitialised(tensor.storage);
    return;
  }
  const Origin origin = cache_.origin_of(identity, own);
  if (origin.sequence != own) {
    record.source = origin.sequence;
    record.source_slot = origin.slot;
    if (op.wanted.producers) names_.add_producer(origin.sequence);
  }
  if (record.skipped != nullptr) return;
  if (op.depth != Depth::full) {  // a later reader brings them
    const NamedTensors::Named* named = named_tensors_.find(tensor);
    if (named != nullptr) record.parameter = named->name->id;
    return;
  }
  const bool with_op =
      (op.wanted.any() && !op.wanted.excludes(true, record.slot)) || !selector_.parameters_follow_ops();
  find_parameter(op, tensor, with_op, record, companion);
  if (record.parameter == 0) find_data(op, tensor, with_op, record, companion);
}

// A list names parameters and data as the graph's nodes of the type Data.
bool OpRecorder::names_parameter(const Op& op, const OpName& name) {
  return selector_.decide_parameter_by_name(name.op_name, sites_.at(op.record.site).scope);
}

// Recorded once per step, as a whole, with the first op that reads a part of it.
void OpRecorder::find_parameter(const Op& op, const HostTensor& tensor, bool with_op, TensorRecord& record,
                                Companion& companion) {
  NamedTensors::Named* named = named_tensors_.find(tensor);
  if (named == nullptr) return;
  record.parameter = named->name->id;
  const std::uint64_t stamp = steps_[op.record.step.graph].stamp;
  if (named->recorded_stamp == stamp) return;
  const bool wanted = (with_op && named->wanted) | (named->by_name && names_parameter(op, *named->name));
  if (!wanted) return;
  named->recorded_stamp = stamp;
  companion.whole.emplace(*named, tensor);
  // The name was given at the start of the step; memory that was resized since is another tensor.
  if (companion.whole->is_inside_storage()) companion.name = named->name;
}

// Data that no op of the dump has written comes from outside.
void OpRecorder::find_data(const Op& op, const HostTensor& tensor, bool with_op, TensorRecord& record,
                           Companion& companion) {
  if (tensor.storage == 0 || tensor.constant || cache_.is_written(tensor.storage)) return;
  const std::uint32_t graph = op.record.step.graph;
  const bool has_constants = recorder_->layout().has_constants();
  NamedTensors::DataNumber* number =
      named_tensors_.data_number(tensor.storage, graph, steps_[graph].stamp, op.backward, has_constants);
  if (number == nullptr) return;
  if (number->name == nullptr) {
    number->name = &names_.parameter(data_name(number->value));
    number->by_name = emits_parameters_ && selector_.names_parameter(number->name->op_name);
  }
  const OpName& name = *number->name;
  record.parameter = name.id;
  if (number->settled) return;
  const bool by_op = with_op && records_parameter(name.op_name);
  const bool by_name = number->by_name && names_parameter(op, name);  // both are asked: each marks its entry as matched
  const bool wanted = by_op || by_name;
  number->settled = wanted || (with_op && !number->by_name);
  if (!wanted) return;
  companion.name = &name;
  companion.in_constants = has_constants;
}

// Records it before the op's own tensor, which is then found to be equal.
void OpRecorder::add_companion(const Op& op, const HostTensor& tensor, const Companion& companion) {
  const HostTensor& source = companion.whole ? companion.whole->tensor() : tensor;
  Record record = parameter_record(*companion.name, op.record.step, source, *recorder_);
  record.in_constants = companion.in_constants;
  record.reader = op.record.op;
  if (reads_) read(source, key_of(source), record.tensors.front());
  record.sequence = recorder_->next_sequence();
  submit(std::move(record));
}

void OpRecorder::add_parameter(const OpName& name, StepId step, const HostTensor& tensor) {
  Record record = parameter_record(name, step, tensor, *recorder_);
  if (reads_) read(tensor, key_of(tensor), record.tensors.front());
  record.sequence = recorder_->next_sequence();
  submit(std::move(record));
}

void OpRecorder::output(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  add_tensor(op, false, slot, tensor);
  if (op.wanted.watched) watch(op, slot, tensor);
}

void OpRecorder::read(const HostTensor& tensor, const TensorKey& key, TensorRecord& out) {
  TensorReading reading(rules_, tensor, key, out);
  {
    const std::unique_lock guard = lock_for(key);
    if (!reading.look_up(cache_)) return;
  }
  if (tensor.handle != nullptr) reads_late_ = true;
  if (!reading.read(*recorder_)) return;
  const std::unique_lock guard = lock_for(key);
  reading.publish(cache_);
}

// A tensor without storage is never considered known: nothing of it is shared.
std::unique_lock<std::mutex> OpRecorder::lock_for(const TensorKey& key) {
  return key.storage != 0 ? std::unique_lock(lock_) : std::unique_lock<std::mutex>();
}

}  // namespace sonde
