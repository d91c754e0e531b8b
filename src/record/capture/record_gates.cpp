#include "record/capture/record_gates.h"

#include <algorithm>
#include <utility>

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

RecordGates::RecordGates(const Plan& plan, const SiteTable& sites, std::mutex& lock)
    : plan_(plan), sites_(sites), lock_(lock), buffer_(searches_) {}

void RecordGates::open(Recorder& recorder) {
  recorder_ = &recorder;
  buffer_.open(recorder);
}

void RecordGates::clear() {
  late_.clear();
  buffer_.clear();
}

void RecordGates::submit(Record&& record) {
  if (!searches_ && !reads_late_.load(std::memory_order_relaxed)) return recorder_->push(std::move(record));
  const SessionLock lock(lock_);
  submit_locked(std::move(record));
}

void RecordGates::submit_locked(Record&& record) {
  if (!reads_late_.load(std::memory_order_relaxed)) return buffer_.submit(std::move(record));
  late_.add(std::move(record));
  advance();
}

void RecordGates::define(std::uint32_t graph, Attributes&& attributes) {
  if (!searches_) return recorder_->define(attributes);
  const SessionLock lock(lock_);
  define_locked(graph, std::move(attributes));
}

void RecordGates::define_locked(std::uint32_t graph, Attributes&& attributes) {
  if (!searches_) return recorder_->define(attributes);
  buffer_.define(graph, std::move(attributes));
}

void RecordGates::mark(const StepMark& mark) {
  if (late_.is_empty()) return apply(mark);
  late_.add(mark);
}

void RecordGates::apply(const StepMark& mark) {
  if (mark.begins) {
    buffer_.begin_step(mark.graph, mark.keeps);
  } else {
    buffer_.end_step(mark.graph);
  }
}

void RecordGates::advance(bool all) {
  late_.advance(all, [this](LateRecords::Entry&& entry) REQUIRES(session_lock) {
    if (const auto* mark = std::get_if<StepMark>(&entry)) return apply(*mark);
    auto& record = std::get<Record>(entry);
    take_late(record);
    buffer_.submit(std::move(record));
  });
}

// The writer may drop the bytes of a reading once a record of it is there, so the first one that is wanted gets them: the one
// that asked for them may not be recorded. One that is not wanted has the known facts only.
void RecordGates::take_late_bytes(TensorRecord& tensor) const {
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
  const bool lacks = plan_.wants_tensors() && !tensor.bytes && tensor.skipped == nullptr;
  if (first && lacks && late.bytes) tensor.bytes = BlockPool::share(late.bytes);
}

// Whether it is recorded is known only now.
void RecordGates::decide(Record& record) {
  if (found_enough() || std::ranges::none_of(record.tensors, overflows)) return forget_values(record);
  keep_overflow(record);
}

// Its tensors have arrived, or never will.
void RecordGates::take_late(Record& record) {
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

// --- the search ---

bool RecordGates::found_enough() const {
  return overflow_only_ && plan_.overflow_number > 0 && found_.count >= plan_.overflow_number;
}

void RecordGates::keep_overflow(Record& record) {
  if (++found_.count == 1) found_.name(record, sites_.at(record.site));
  record.overflowed = true;
  buffer_.keep(record.step.graph);
}

void RecordGates::overflowed(Op& op) {
  keep_overflow(op.record);
  op.wanted = {.inputs = true, .outputs = true};
}

void RecordGates::threw(Op& op) {
  // The last one is the one that ends the run, if any does.
  ++found_.count;
  found_.name(op.record, sites_.at(op.record.site));
  op.wanted = {.inputs = true, .outputs = false};
  op.record.failed = true;
  buffer_.keep(op.record.step.graph);
}

void RecordGates::undecided(Op& op) {
  op.record.undecided = true;
  op.wanted = {.inputs = true, .outputs = true};
}

}  // namespace sonde
