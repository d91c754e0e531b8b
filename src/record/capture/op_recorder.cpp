// OpRecorder's life, its steps and its ops. Reading of tensors: op_tensors.cpp.
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
    : plan_(plan),
      sites_(sites),
      lock_(lock),
      selector_(plan),
      names_(plan, selector_, sites),
      rules_(plan),
      buffer_(buffers_step_) {}

void OpRecorder::open(std::unique_ptr<Recorder> recorder) {
  recorder_ = std::move(recorder);
  names_.open(*recorder_);
  buffer_.open(*recorder_);
  rules_.bytes_each_time = rules_.needs_bytes && recorder_->layout().tensor_form() == TensorForm::container;
  rules_.ring = rules_.needs_bytes && !rules_.bytes_each_time ? recorder_->ring() : nullptr;
}

void OpRecorder::discard() {
  if (recorder_) recorder_->discard();
  shrink();
}

void OpRecorder::shrink() {
  cache_.release();
  late_.clear();
  attribute_ids_.clear();
  named_tensors_.clear();
  kept_.clear();
  buffer_.clear();
}

// --- steps -----------------------------------------------------------------------------------------------------------

void OpRecorder::push_step(bool began, StepId step) {
  if (Ring* ring = began ? recorder_->ring() : nullptr) ring->step_begins();
  Record record;
  record.kind = began ? RecordKind::step_begin : RecordKind::step_end;
  record.sequence = recorder_->next_sequence();
  record.step = step;
  record.timestamp_us = now_us();
  submit_locked(std::move(record));
}

void OpRecorder::announce(StepId step) {
  if (!std::exchange(steps_[step.graph].announced, true)) push_step(true, step);
}

void OpRecorder::begin_step(const StepChange& change, bool keeps) {
  const std::uint32_t graph = change.step.graph;
  GraphStep& step = steps_[graph];
  step.announced = false;
  ++counts_.steps_begun;
  if (counts_.steps_begun > 2) named_tensors_.forget_older_than(counts_.steps_begun - 2);
  // The graph of the first step is always wanted.
  submit_mark({.begins = true, .graph = graph, .keeps = keeps && overflow_only_ && counts_.steps_begun == 1});
  if (change.resumed) return;  // switched off and on within the step: it continues
  step.stamp = ++stamp_;
  step.next_task = 0;
  selector_.begin_step(graph);
  names_.begin_step();
  named_tensors_.begin_step(graph, recorder_->layout().has_constants());
}

void OpRecorder::end_step(StepId step) {
  if (!steps_[step.graph].announced) {
    --counts_.steps_begun;
    return;
  }
  push_step(false, step);
  ++counts_.steps_ended;
  submit_mark({.begins = false, .graph = step.graph});
}

// --- memory ----------------------------------------------------------------------------------------------------------

void OpRecorder::name_tensor(std::string_view name, const HostTensor& tensor) {
  const OpName& parameter = names_.parameter(name);
  bool is_new = false;
  NamedTensors::Named& named = named_tensors_.name(parameter, tensor, counts_.steps_begun, is_new);
  if (!is_new) return;
  named.wanted = records_parameter(parameter.op_name);
  named.by_name = emits_parameters_ && selector_.names_parameter(parameter.op_name);
}

void OpRecorder::storage_changed(std::uint64_t storage) {
  if (storage == 0) {
    cache_.forget_contents();
  } else {
    cache_.wrote(storage, kNoSequence);
  }
}

void OpRecorder::storages_freed(std::span<const std::uint64_t> storages) {
  for (const std::uint64_t storage : storages) {
    cache_.forget(storage);
    named_tensors_.freed(storage);
  }
}

// --- ops -------------------------------------------------------------------------------------------------------------

std::uint32_t OpRecorder::begin(Op& op, const Site& site, StepId step, std::uint64_t attributes) {
  announce(step);
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
  if (record.tensors.capacity() == 0) record.tensors = recorder_->spare_tensors();
  record.tensors.clear();
}

// The selection for the op, changed by the plan's mode, as SONDE_WANT_*.
std::uint32_t OpRecorder::wanted_bits(Op& op, bool flagged) {
  ++counts_.ops;
  if (flagged) ++counts_.flagged_ops;
  op.record.selected = op.wanted.any();
  if (buffers_step_) {
    op.wanted = {};
    return SONDE_WANT_STRUCTURE | (overflow_only_ ? SONDE_WANT_CHECK : SONDE_WANT_FAILURE);
  }
  return SONDE_WANT_STRUCTURE | (op.wanted.inputs ? SONDE_WANT_INPUTS : 0U) |
         (op.wanted.outputs ? SONDE_WANT_OUTPUTS : 0U) | (op.wanted.watched ? SONDE_WANT_WEAK_REF : 0U) |
         (op.wanted.checks ? SONDE_WANT_WATCHED : 0U);
}

std::uint32_t OpRecorder::attributes_id(std::uint64_t hash, bool& fresh) {
  if (attribute_ids_.size() >= kMostAttributesKnown) {
    attribute_ids_.clear();
    buffer_.forget_attributes();
  }
  const auto [known, is_new] = attribute_ids_.try_emplace(hash, next_attributes_);
  if (is_new) ++next_attributes_;
  fresh = is_new;
  return known->second;
}

void OpRecorder::set_attributes(Op& op, std::vector<Attribute> values) {
  if (!buffers_step_) return set_attributes_locked(op, std::move(values));  // a definition needs no lock
  const std::lock_guard guard(lock_);
  set_attributes_locked(op, std::move(values));
}

void OpRecorder::set_attributes_locked(Op& op, std::vector<Attribute> values) {
  Attributes attributes;
  attributes.id = op.record.attributes;
  attributes.values = std::move(values);
  if (!buffers_step_) return recorder_->define(attributes);
  buffer_.define(op.record.step.graph, std::move(attributes));
}

void OpRecorder::mutated(Op& op, std::uint64_t storage) {
  const std::lock_guard guard(lock_);
  cache_.wrote(storage, op.record.sequence);
}

void OpRecorder::submit(Record&& record) {
  if (!buffers_step_ && !reads_late_.load(std::memory_order_relaxed)) return recorder_->push(std::move(record));
  const std::lock_guard guard(lock_);
  submit_locked(std::move(record));
}

void OpRecorder::submit_locked(Record&& record) {
  if (!reads_late_.load(std::memory_order_relaxed)) return buffer_.submit(std::move(record));
  late_.add(std::move(record));
  advance();
}

void OpRecorder::end(Op& op, bool failed) {
  const bool must_be_written = exception_only_ && failed;  // the program may end a moment later
  if (must_be_written) drain_devices();
  op.record.failed = failed;
  settle_before(op, op.record.overflowed || op.record.undecided || must_be_written);
  // Slots in order, inputs first: the host reports them in the best order for reading their bytes.
  sort_by_slot(op.record.tensors);
  for (TensorRecord& tensor : op.record.tensors) tensor.timestamp_us = op.record.timestamp_us;
  if (overhead_ != nullptr && !op.deferred) {
    const std::lock_guard guard(lock_);
    overhead_->ended(op.record.step.graph, op.record.op->id, op.depth, op.read_nanoseconds, op.copied_bytes);
  }
  submit(std::move(op.record));
  if (must_be_written) recorder_->flush();
}

std::unique_ptr<Op> OpRecorder::defer(Op& op) {
  auto rest = std::make_unique<Op>();
  rest->session = op.session;
  rest->recorder = this;
  rest->wanted = op.wanted;
  rest->backward = op.backward;
  rest->deferred = true;
  rest->depth = op.depth;
  Record& record = rest->record;
  record.completes = true;
  record.op = op.record.op;
  record.sequence = op.record.sequence;
  record.step = op.record.step;
  record.site = op.record.site;
  record.thread = op.record.thread;
  record.task_id = op.record.task_id;
  record.timestamp_us = op.record.timestamp_us;
  end(op, false);
  return rest;
}

// --- compiled graphs ---------------------------------------------------------------------------------------------------

std::uint64_t OpRecorder::keep(const Op& op) {
  const std::lock_guard guard(lock_);
  kept_.keep(op.record);
  return op.record.sequence;
}

void OpRecorder::input_of(Op& op, std::uint32_t slot, std::uint64_t maker, std::uint32_t output) {
  TensorRecord& record = op.record.tensors.emplace_back();
  {
    const std::lock_guard guard(lock_);
    kept_.give(maker, output, record);
    if (op.wanted.producers) names_.add_producer(maker);
  }
  record.is_input = true;
  record.slot = slot;
  record.wanted = op.wanted.slot(true, slot);
  record.source = maker;
  record.source_slot = output;
}

void OpRecorder::result_at(std::uint64_t maker, std::uint32_t output, const HostTensor& tensor) {
  cache_.wrote(tensor.storage, maker);
  cache_.made(identity_of(tensor), {maker, output});
}

// SONDE_WANT_* of every op, as far as its name does not matter; 0: that depends on the name.
std::uint32_t OpRecorder::every_op_wants() const {
  constexpr std::uint32_t kBoth = SONDE_WANT_INPUTS | SONDE_WANT_OUTPUTS;
  if (!reads_) return SONDE_WANT_STRUCTURE;
  const bool by_order = selector_.in_order() || selector_.follows_producers() || names_.flags_matter();
  const bool by_name = plan_.dump_mode != DumpMode::all || plan_.acl.in_use;
  const bool unknown = recorder_ == nullptr || recorder_->layout().names().numbers_throughout();
  if (buffers_step_ || by_order || (by_name && unknown)) return kBoth | SONDE_WANT_CHECK;
  if (by_name) return 0;
  const std::uint32_t sides = plan_.input_output == Sides::inputs    ? SONDE_WANT_INPUTS
                              : plan_.input_output == Sides::outputs ? SONDE_WANT_OUTPUTS
                                                                     : kBoth;
  return sides | (rules_.bytes_each_time ? SONDE_WANT_CHECK : 0U);
}

std::uint32_t OpRecorder::site_wants(const Site& site, std::uint32_t count) {
  if (const std::uint32_t all = every_op_wants(); site.id == 0 || all != 0) return all;
  if (!forecast_) forecast_.emplace(plan_);
  std::uint32_t wanted = SONDE_WANT_CHECK;
  for (std::uint32_t number = 0; number < count; ++number) {
    const std::string name = recorder_->layout().names().op_name(site, number);
    const Selector::Wanted one = forecast_->decide_op({.op_name = name, .op_type = site.op_type, .scope = site.scope});
    wanted |= (one.inputs ? SONDE_WANT_INPUTS : 0U) | (one.outputs ? SONDE_WANT_OUTPUTS : 0U);
    if (one.inputs && one.outputs) break;
  }
  return wanted;
}

// Whether the plan names ops of this site, by whatever number.
bool OpRecorder::names_one_of(const Site& site, std::string_view replaced_by) {
  bool named = false;
  for (const std::uint32_t number : selector_.numbers_named()) {
    const std::string name = recorder_->layout().names().op_name(site, number);
    named = selector_.names({.op_name = name, .op_type = site.op_type, .scope = site.scope}, replaced_by) || named;
  }
  return named;
}

bool OpRecorder::op_replaced(const Site& site, std::string_view by) {
  if (recorder_ == nullptr || site.id == 0) return recorder_ != nullptr && !selector_.numbers_named().empty();
  Site part = site;
  for (std::string_view rest = by; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(", "), rest.size());
    part.op_type = rest.substr(0, comma);
    if (names_one_of(part, {})) return false;
    rest.remove_prefix(std::min(comma + 2, rest.size()));
  }
  return names_one_of(site, by);
}

// --- searches of modes -----------------------------------------------------------------------------------------------

bool OpRecorder::found_enough() const {
  return overflow_only_ && plan_.overflow_number > 0 && found_.count >= plan_.overflow_number;
}

void OpRecorder::overflowed(Op& op) {
  if (++found_.count == 1) found_.name(op.record, sites_.at(op.record.site));
  op.record.overflowed = true;
  op.wanted = {.inputs = true, .outputs = true};
  buffer_.keep(op.record.step.graph);
}

void OpRecorder::threw(Op& op) {
  // The last one is the one that ends the run, if any does.
  ++found_.count;
  found_.name(op.record, sites_.at(op.record.site));
  op.wanted = {.inputs = true, .outputs = false};
  op.record.failed = true;
  buffer_.keep(op.record.step.graph);
}

}  // namespace sonde
