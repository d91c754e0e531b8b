// Records with tensors that a device still reads: they wait in the order of the run, and so do the modes that decide by
// values.
#include <algorithm>
#include <utility>

#include "record/capture/op_recorder.h"
#include "record/writer/late_tensors.h"

namespace sonde {
namespace {

bool overflows(const TensorRecord& tensor) {
  if (tensor.is_input) return false;
  if (tensor.late != nullptr && !tensor.late->arrived.load(std::memory_order_acquire)) return false;
  if (tensor.late != nullptr && tensor.late->has_statistics) return !tensor.late->statistics.all_finite();
  return tensor.has_statistics && !tensor.statistics.all_finite();
}

// It is not recorded: only its place in the graph.
void forget_values(Record& record) {
  for (TensorRecord& tensor : record.tensors) {
    tensor.wanted = false;
    tensor.bytes.reset();
  }
}

}  // namespace

void OpRecorder::undecided(Op& op) {
  op.record.undecided = true;
  op.wanted = {.inputs = true, .outputs = true};
}

void OpRecorder::submit_mark(const StepMark& mark) {
  if (late_.is_empty()) return apply_mark(mark);
  late_.add(mark);
}

void OpRecorder::apply_mark(const StepMark& mark) {
  if (mark.begins) {
    buffer_.begin_step(mark.graph, mark.keeps);
  } else {
    buffer_.end_step(mark.graph);
  }
}

void OpRecorder::advance(bool all) {
  late_.advance(all, [this](LateRecords::Entry&& entry) {
    if (const auto* mark = std::get_if<StepMark>(&entry)) return apply_mark(*mark);
    auto& record = std::get<Record>(entry);
    take_late(record);
    buffer_.submit(std::move(record));
  });
}

// The writer may drop the bytes of a reading once a record of it is there, so the first one that is wanted gets them: the one
// that asked for them may not be recorded. One that is not wanted has the known facts only.
void OpRecorder::take_late_bytes(TensorRecord& tensor) const {
  LateReading& late = *tensor.late;
  if (!late.has_bytes) tensor.bytes.reset();
  if (late.failed != nullptr) tensor.skipped = late.failed;
  if (!tensor.wanted && !late.handed_on) {
    tensor.has_statistics = late.has_statistics && info(late.dtype).has_statistics;
    tensor.statistics = late.statistics;
    tensor.late.reset();
    return;
  }
  const bool first = !std::exchange(late.handed_on, true);
  const bool lacks = rules_.needs_bytes && !tensor.bytes && tensor.skipped == nullptr;
  if (first && lacks && late.bytes) tensor.bytes = BlockPool::share(late.bytes);
}

// Whether it is recorded is known only now.
void OpRecorder::decide(Record& record) {
  if (found_enough() || std::ranges::none_of(record.tensors, overflows)) return forget_values(record);
  if (++found_.count == 1) found_.name(record, sites_.at(record.site));
  record.overflowed = true;
  buffer_.keep(record.step.graph);
}

// Its tensors have arrived, or never will.
void OpRecorder::take_late(Record& record) {
  if (record.undecided && !record.overflowed) decide(record);
  for (TensorRecord& tensor : record.tensors) {
    if (tensor.late == nullptr) continue;
    if (tensor.late->arrived.load(std::memory_order_acquire)) {
      take_late_bytes(tensor);
    } else {
      tensor.late.reset();
      tensor.bytes.reset();
      tensor.skipped = "the recording ended before the device had read it";
    }
  }
  if (plan_.sonde.ring > 0) settle_late_tensors(plan_, record, nullptr);  // the ring holds no bytes for statistics
}

}  // namespace sonde
