#include "record/capture/op_recorder.h"

#include <algorithm>
#include <atomic>

#include "ground/base/clock.h"
#include "record/capture/devices.h"
#include "record/writer/ring.h"
#include "sonde/sonde.h"

namespace sonde {

namespace {

bool comes_before(const TensorRecord& a, const TensorRecord& b) {
  return a.is_input != b.is_input ? a.is_input : a.slot < b.slot;
}

// Few are out of order, usually none: std::stable_sort would allocate memory for every op.
void sort_by_slot(std::vector<TensorRecord>& tensors) {
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    if (!comes_before(tensors[i], tensors[i - 1])) continue;
    const auto end = tensors.begin() + static_cast<std::ptrdiff_t>(i);
    const auto place = std::upper_bound(tensors.begin(), end, tensors[i], comes_before);
    std::rotate(place, end, end + 1);
  }
}

}  // namespace

std::uint16_t thread_ordinal() {
  static std::atomic<std::uint16_t> next{0};
  thread_local const std::uint16_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

OpRecorder::OpRecorder(const Plan& plan, const SiteTable& sites, std::mutex& lock)
    : sites_(sites),
      lock_(lock),
      selector_(plan),
      names_(plan, selector_, sites),
      forecast_(plan, selector_),
      gates_(plan, sites, lock),
      tensors_(plan, sites, selector_, names_, steps_, gates_, lock),
      earlier_(tensors_),
      watched_(sites, names_, steps_, tensors_, gates_, lock) {}

void OpRecorder::limit(Overhead* overhead) {
  overhead_ = overhead;
  tensors_.measure_time();
}

void OpRecorder::open(std::unique_ptr<Recorder> recorder) {
  recorder_ = std::move(recorder);
  names_.open(*recorder_);
  forecast_.open(*recorder_);
  gates_.open(*recorder_);
  tensors_.open(*recorder_);
  earlier_.open(*recorder_);
  watched_.open(*recorder_);
}

void OpRecorder::discard() {
  if (recorder_) recorder_->discard();
  shrink();
}

void OpRecorder::shrink() {
  gates_.clear();
  tensors_.clear();
  attribute_ids_.clear();
}

// --- steps -----------------------------------------------------------------------------------------------------------

void OpRecorder::push_step(bool began, StepId step) {
  if (Ring* ring = began ? recorder_->ring() : nullptr) ring->step_begins();
  Record record;
  record.kind = began ? RecordKind::step_begin : RecordKind::step_end;
  record.sequence = recorder_->next_sequence();
  record.step = step;
  record.timestamp_us = now_us();
  if (began) record.attributes = define_requests(step.graph);
  gates_.submit_locked(std::move(record));
}

// An attribute for each request: its rows (docs/format.md). 0: the step has none.
std::uint32_t OpRecorder::define_requests(std::uint32_t graph) {
  const std::vector<StepRequest> requests = std::exchange(steps_[graph].requests, {});
  if (requests.empty()) return 0;
  Attributes attributes;
  attributes.id = next_attributes_++;
  for (const StepRequest& request : requests) attributes.values.push_back(attribute_of(request));
  gates_.define_locked(graph, Attributes(attributes));
  return attributes.id;
}

void OpRecorder::announce(StepId step) {
  if (!std::exchange(steps_[step.graph].announced, true)) push_step(true, step);
}

void OpRecorder::begin_step(const StepChange& change, bool keeps) {
  const std::uint32_t graph = change.step.graph;
  GraphStep& step = steps_[graph];
  step.announced = false;
  step.requests = requests_;
  if (keeps) requests_.clear();  // else the step may turn out to be none
  ++counts_.steps_begun;
  Companions& companions = tensors_.companions();
  if (counts_.steps_begun > 2) companions.forget_older_than(counts_.steps_begun - 2);
  // The graph of the first step is always wanted.
  gates_.mark({.begins = true, .graph = graph, .keeps = keeps && gates_.overflow_only() && counts_.steps_begun == 1});
  if (change.resumed) return;  // switched off and on within the step: it continues
  step.stamp = ++stamp_;
  step.next_task = 0;
  selector_.begin_step(graph);
  names_.begin_step();
  companions.begin_step(graph);
}

void OpRecorder::end_step(StepId step) {
  if (!steps_[step.graph].announced) {
    --counts_.steps_begun;
    return;
  }
  push_step(false, step);
  ++counts_.steps_ended;
  gates_.mark({.begins = false, .graph = step.graph});
}

void OpRecorder::name_tensor(std::string_view name, const HostTensor& tensor) {
  tensors_.companions().name_tensor(name, tensor, counts_.steps_begun);
}

// --- ops -------------------------------------------------------------------------------------------------------------

std::uint32_t OpRecorder::begin(Op& op, const Site& site, StepId step, std::uint64_t attributes) {
  announce(step);
  tensors_.op_begins();
  const bool flagged = names_.flags_matter() && sites_.is_flagged(site);
  const OpNames::Selected selected = names_.next(site, step.graph, steps_[step.graph].stamp, flagged);
  fill_record(op, *selected.name, site.id, step);
  names_.ran(selected, op.record.sequence);
  bool fresh_attributes = false;
  if (attributes != 0) op.record.attributes = attributes_id(attributes, fresh_attributes);
  op.backward = site.phase == Phase::backward;
  op.wanted = selected.wanted;
  if (overhead_ != nullptr) op.depth = overhead_->choose(step.graph, selected.name->id, site.phase);
  return wanted_bits(op, flagged) | (fresh_attributes ? SONDE_WANT_ATTRIBUTES : 0U);
}

std::uint32_t OpRecorder::begin_named(Op& op, const OpName& name, const Site& site, StepId step,
                                      Selector::Wanted wanted, bool flagged, std::uint64_t attributes) {
  fill_record(op, name, site.id, step);
  op.backward = site.phase == Phase::backward;
  op.wanted = wanted;
  bool fresh_attributes = false;
  const std::uint32_t bits = wanted_bits(op, flagged);
  if (attributes != 0 && bits != 0) op.record.attributes = attributes_id(attributes, fresh_attributes);
  return bits | (fresh_attributes ? SONDE_WANT_ATTRIBUTES : 0U);
}

// Ops are reused: every field of the last one is set.
void OpRecorder::fill_record(Op& op, const OpName& name, std::uint32_t site, StepId step) {
  op.recorder = this;
  op.deferred = false;
  op.depth = Depth::full;
  op.read_nanoseconds = op.copied_bytes = 0;
  op.before.clear();
  Record& record = op.record;
  record.kind = RecordKind::op;
  record.op = &name;
  record.sequence = recorder_->next_sequence();
  record.step = step;
  record.site = site;
  record.thread = thread_ordinal();
  record.task_id = steps_[step.graph].next_task++;
  record.failed = false;
  record.overflowed = record.undecided = false;
  record.timestamp_us = now_us();
  record.attributes = 0;
  record.call_number = 0;
  if (record.tensors.capacity() == 0) record.tensors = recorder_->spare_tensors();
  record.tensors.clear();
}

// The selection for the op, changed by the plan's mode, as SONDE_WANT_*.
std::uint32_t OpRecorder::wanted_bits(Op& op, bool flagged) {
  ++counts_.ops;
  if (flagged) ++counts_.flagged_ops;
  op.record.selected = op.wanted.any();
  if (gates_.searches()) {
    op.wanted = {};
    return SONDE_WANT_STRUCTURE | (gates_.overflow_only() ? SONDE_WANT_CHECK : SONDE_WANT_FAILURE);
  }
  return SONDE_WANT_STRUCTURE | (op.wanted.inputs ? SONDE_WANT_INPUTS : 0U) |
         (op.wanted.outputs ? SONDE_WANT_OUTPUTS : 0U) | (op.wanted.watched ? SONDE_WANT_WEAK_REF : 0U) |
         (op.wanted.checks ? SONDE_WANT_WATCHED : 0U);
}

std::uint32_t OpRecorder::attributes_id(std::uint64_t hash, bool& fresh) {
  if (attribute_ids_.size() >= kMostAttributesKnown) {
    attribute_ids_.clear();
    gates_.forget_attributes();
  }
  const auto [known, is_new] = attribute_ids_.try_emplace(hash, next_attributes_);
  if (is_new) ++next_attributes_;
  fresh = is_new;
  return known->second;
}

void OpRecorder::set_attributes(Op& op, std::vector<Attribute> values) {
  gates_.define(op.record.step.graph, {.id = op.record.attributes, .values = std::move(values)});
}

void OpRecorder::set_attributes_locked(Op& op, std::vector<Attribute> values) {
  gates_.define_locked(op.record.step.graph, {.id = op.record.attributes, .values = std::move(values)});
}

void OpRecorder::input_before(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  if (gates_.searches()) return earlier_.add(op, slot, tensor);
  input(op, slot, tensor);
}

void OpRecorder::input(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  tensors_.add(op, true, slot, tensor, op.wanted.slot(true, slot));
}

void OpRecorder::output(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  tensors_.add(op, false, slot, tensor, op.wanted.slot(false, slot));
  if (op.wanted.watched) watched_.ran(op, slot, tensor);
}

bool OpRecorder::watched(Op& op, std::uint32_t watch_id, std::uint32_t slot, const HostTensor& tensor) {
  return watched_.read_again(op, watch_id, slot, tensor);
}

void OpRecorder::end(Op& op, bool failed) {
  const bool must_be_written = gates_.exception_only() && failed;  // the program may end a moment later
  if (must_be_written) drain_devices();
  op.record.failed = failed;
  earlier_.settle(op, op.record.overflowed || op.record.undecided || must_be_written);
  // Slots in order, inputs first: the host reports them in the best order for reading their bytes.
  sort_by_slot(op.record.tensors);
  for (TensorRecord& tensor : op.record.tensors) tensor.timestamp_us = op.record.timestamp_us;
  if (overhead_ != nullptr && !op.deferred) {
    const SessionLock lock(lock_);
    overhead_->ended(op.record.step.graph, op.record.op->id, op.depth, op.read_nanoseconds, op.copied_bytes);
  }
  gates_.submit(std::move(op.record));
  if (must_be_written) recorder_->flush();
}

std::unique_ptr<Op> OpRecorder::defer(Op& op) {
  auto rest = std::make_unique<Op>();
  static_cast<OpFacts&>(*rest) = op;
  static_cast<NamedRecord&>(rest->record) = op.record;
  rest->deferred = rest->record.completes = true;
  rest->record.attributes = 0;  // the first record has them
  rest->record.call_number = 0;
  end(op, false);
  return rest;
}

}  // namespace sonde
