// What Session records: sites, names, ops, and what is read of their tensors.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "capture/host_tensor.h"
#include "capture/session.h"
#include "stats/statistics.h"

namespace sonde {
namespace {

std::uint16_t thread_ordinal() {
  static std::atomic<std::uint16_t> next{0};
  thread_local const std::uint16_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

// CANN's comparisons begin with the first element, and nothing is greater than a NaN.
bool first_is_nan(const DeviceAccess& reader, TensorView view, const Statistics& statistics) {
  if (statistics.nan_count == 0) return false;
  view.shape = {};
  view.strides = {};
  return reader.summarize(view).nan_count > 0;
}

// "network-AlexNet/features/0-Conv2d" -> "network/features/0".
std::string without_classes(std::string_view scope) {
  std::string attributes;
  while (!scope.empty()) {
    const std::string_view level = scope.substr(0, scope.find('/'));
    scope.remove_prefix(std::min(level.size() + 1, scope.size()));
    attributes.append(attributes.empty() ? "" : "/").append(level.substr(0, level.rfind('-')));
  }
  return attributes;
}

}  // namespace

SourceLine line_of(const sonde_source_line& in) {
  return {in.file != nullptr ? in.file : "",
          in.function != nullptr ? in.function : "",
          in.line,
          in.column,
          in.end_line,
          in.end_column};
}

Attribute attribute_of(const sonde_attribute& in) {
  Attribute out;
  out.name = in.name;
  out.kind = static_cast<AttributeKind>(in.kind);
  if (in.text != nullptr) out.text = in.text;
  if (in.integers != nullptr) out.integers.assign(in.integers, in.integers + in.count);
  if (in.reals != nullptr) out.reals.assign(in.reals, in.reals + in.count);
  return out;
}

// --- names -----------------------------------------------------------------------------------------------------------

std::uint32_t Session::site(const sonde_site& in) {
  Site site;
  site.phase = static_cast<Phase>(in.phase);
  site.op_type = in.op_type;
  site.scope = in.scope != nullptr ? in.scope : "";
  const bool of_modules = site.phase == Phase::forward || site.phase == Phase::recompute;
  if (of_modules && !plan_.sonde.class_names_in_scope) site.scope = without_classes(site.scope);
  site.flagged = (in.flags & SONDE_SITE_FLAGGED) != 0;
  for (std::uint32_t i = 0; in.trace != nullptr && i < in.trace_count; ++i) site.trace.push_back(line_of(in.trace[i]));
  site.forward_site = in.forward_site;
  const std::lock_guard lock(mutex_);
  // A node that began before this session did may name a site of the last one.
  if (site.forward_site > sites_.size()) site.forward_site = 0;
  if (site.forward_site != 0) {
    const Site& forward = sites_[site.forward_site - 1];
    site.forward_op_type = forward.op_type;
    site.scope = forward.scope;
    site.flagged = site.flagged || forward.flagged;
    if (site.trace.empty()) site.trace = forward.trace;
  }
  const SourceLine line = site.trace.empty() ? SourceLine() : site.trace.front();
  std::string text = fmt::format("{}|{}|{}|{}|{}|{}|{}", in.phase, site.op_type, site.scope, site.forward_op_type,
                                 line.line, site.flagged ? 1 : 0, line.file);
  const auto known = site_ids_.find(text);
  if (known != site_ids_.end()) return known->second;

  site.id = static_cast<std::uint32_t>(sites_.size() + 1);
  site_ids_.emplace(std::move(text), site.id);
  sites_.push_back(site);
  // Most sites seen while roots are looked for are never recorded: the rest of the work waits for op_begin.
  site_keys_.push_back(kNoKey);
  return site.id;
}

void Session::define_site(std::uint32_t site_id) {
  if (site_defined_.size() < sites_.size()) site_defined_.resize(sites_.size());
  if (site_defined_[site_id - 1]) return;
  site_defined_[site_id - 1] = true;
  recorder_->define(sites_[site_id - 1]);
}

const OpName& Session::name_of(NameKey& key, const Site& site, std::uint32_t number) {
  while (key.entries.size() <= number) {
    const auto ordinal = static_cast<std::uint32_t>(key.entries.size());
    OpName& name = names_.emplace_back();
    name.id = static_cast<std::uint32_t>(names_.size());
    name.op_type = key.op_type;
    const Layout& layout = recorder_->layout();
    name.full_name = layout.full_name(site, layout.numbers_throughout() ? nodes_++ : ordinal);
    recorder_->define(name);
    NameKey::Entry& entry = key.entries.emplace_back();
    entry.name = &name;
    if (selector_->in_order()) continue;
    Selector::AskedOp asked{.full_name = name.full_name, .op_type = name.op_type, .scope = site.scope};
    entry.wanted = entry.wanted_if_flagged = selector_->decide_op(asked);
    if (!flags_matter_) continue;
    asked.flagged = true;
    entry.wanted_if_flagged = selector_->decide_op(asked);
  }
  return *key.entries[number].name;
}

// What an opname_range selects is told only by the ops before it.
Selector::Wanted Session::decide_in_order(const OpName& name, const Site& site, std::uint32_t graph, bool flagged) {
  return selector_->decide_op(
      {.full_name = name.full_name, .op_type = name.op_type, .scope = site.scope, .flagged = flagged, .graph = graph});
}

// What feeds a selected collective has run before it is known to: it is recorded from the next step on. In this one, what
// it made is what the collective reads.
void Session::add_producer(std::uint64_t sequence) {
  const auto found = entries_of_step_.find(sequence);
  if (found == entries_of_step_.end()) return;
  const auto [key, number] = found->second;
  NameKey::Entry& entry = name_keys_[key].entries[number];
  if (entry.wanted.any()) return;
  selector_->add_producer(entry.name->full_name);
  entry.wanted = selector_->decide_op({.full_name = entry.name->full_name, .op_type = entry.name->op_type});
}

const OpName& Session::parameter_name(const std::string& text) {
  const auto known = parameter_ids_.find(text);
  if (known != parameter_ids_.end()) return names_[known->second - 1];
  OpName& name = names_.emplace_back();
  name.id = static_cast<std::uint32_t>(names_.size());
  name.op_type = "Parameter";
  name.full_name = text;
  parameter_ids_.emplace(text, name.id);
  recorder_->define(name);
  return name;
}

void Session::name_tensor(const char* name, const sonde_tensor& tensor) {
  if (tensor.skip != nullptr || tensor.storage == 0) return;
  const std::lock_guard lock(mutex_);
  if (!recorder_ || failed_) return;
  const OpName& op = parameter_name(name);
  auto& list = named_[tensor.storage];
  auto it = std::ranges::find(list, &op, &NamedTensor::name);
  if (it == list.end()) {
    it = list.emplace(list.end());
    it->name = &op;
    it->wanted = emits_parameters_ && selector_->decide_parameter(op.full_name);
  }
  const TensorView view = view_of(tensor);
  it->named_in_step = steps_recorded_;
  it->data = tensor.data;
  it->dtype = view.dtype;
  it->shape = Dims(view.shape);
  it->strides = Dims(view.strides);
  it->extent_bytes = extent_bytes(view);
}

// --- ops -------------------------------------------------------------------------------------------------------------

std::uint32_t Session::attributes_id(std::uint64_t hash, bool& fresh) {
  if (attribute_ids_.size() >= kMostAttributesKnown) {
    attribute_ids_.clear();
    held_attributes_.clear();
  }
  const auto [known, is_new] = attribute_ids_.try_emplace(hash, next_attributes_);
  if (is_new) ++next_attributes_;
  fresh = is_new;
  return known->second;
}

void Session::op_attributes(Op& op, std::span<const sonde_attribute> attributes) {
  Attributes all;
  all.id = op.record.attributes;
  for (const sonde_attribute& attribute : attributes) all.values.push_back(attribute_of(attribute));
  if (!holds_) return op.recorder->define(all);
  const std::lock_guard lock(mutex_);
  if (is_stale(op)) return;
  if (held_[op.record.step.graph].kept) {
    recorder_->define(all);
  } else {
    held_attributes_.push_back(std::move(all));
  }
}

void Session::source_text(const char* file, const char* text) {
  const std::lock_guard lock(mutex_);
  source_texts_.push_back({file, text});
  if (recorder_) recorder_->define(source_texts_.back());
  if (recorder_ && !clock_.provisional()) source_texts_.clear();
}

// Many ops have run, or many bytes wait, and it is still open whether they are a preamble. Asked once; a host that does
// not know settles it.
bool Session::is_undecided() {
  constexpr std::uint64_t kMostOps = 1000;
  if (!clock_.provisional() || holds_) return false;
  if (++ops_provisional_ <= kMostOps && recorder_->held_bytes() <= plan_.sonde.budget_bytes / 4) return false;
  if (!std::exchange(asked_for_modules_, true)) return true;
  settle();
  return false;
}

unsigned Session::op_begin(std::uint32_t site_id, std::uint32_t graph, std::uint64_t attributes, Op*& op) {
  const std::lock_guard lock(mutex_);
  if (failed_ || site_id == 0 || site_id > sites_.size()) return 0;
  if (graph == SONDE_GRAPH_EVALUATION) {
    graph = clock_.quiet_graph();
  } else if (graph >= SONDE_GRAPH_OUTSIDE_GRAD) {
    graph = clock_.graph_outside_modules(graph == SONDE_GRAPH_OUTSIDE_GRAD);
  } else if (sites_[site_id - 1].phase == Phase::backward) {
    clock_.backward_ran();
  }
  if (clock_.manual()) graph = SONDE_GRAPH_TRAINING;
  if (!host_names_) apply(clock_.operator_seen());
  const auto step = clock_.recording(graph);
  if (!step || !recorder_ || named_owner_) return 0;

  const Site& site = sites_[site_id - 1];
  std::uint32_t& key_id = site_keys_[site_id - 1];
  if (key_id == kNoKey) {
    auto [it, fresh] =
        name_key_ids_.try_emplace(recorder_->layout().number_key(site), static_cast<std::uint32_t>(name_keys_.size()));
    if (fresh) name_keys_.emplace_back().op_type = site.op_type;
    key_id = it->second;
    if (site.forward_site != 0) define_site(site.forward_site);
    define_site(site_id);
  }
  NameKey& key = name_keys_[key_id];
  if (key.stamp[graph] != step_stamp_[graph]) {
    key.stamp[graph] = step_stamp_[graph];
    key.next[graph] = 0;
  }
  const std::uint32_t number = key.next[graph]++;

  announce(*step);
  begin_record(*op, name_of(key, site, number), *step, site_id);
  Record& record = op->record;
  if (selector_->follows_producers()) entries_of_step_[record.sequence] = {key_id, number};
  bool fresh_attributes = false;
  record.attributes = attributes != 0 ? attributes_id(attributes, fresh_attributes) : 0;
  op->backward = site.phase == Phase::backward;
  const bool flagged = flags_matter_ && is_flagged(site);
  const NameKey::Entry& entry = key.entries[number];
  op->wanted = flagged ? entry.wanted_if_flagged : entry.wanted;
  if (selector_->in_order()) op->wanted = decide_in_order(*record.op, site, graph, flagged);
  record.selected = op->wanted.any();
  return begin_in_mode(*op, flagged) | (is_undecided() ? SONDE_WANT_MODULES : 0u) |
         (op->wanted.inputs ? SONDE_WANT_INPUTS : 0u) | (op->wanted.outputs ? SONDE_WANT_OUTPUTS : 0u) |
         (fresh_attributes ? SONDE_WANT_ATTRIBUTES : 0u);
}

void Session::begin_record(Op& op, const OpName& name, StepId step, std::uint32_t site) {
  op.beginning = beginning_;
  op.recorder = recorder_.get();
  Record& record = op.record;
  record.kind = RecordKind::op;
  record.op = &name;
  record.sequence = recorder_->next_sequence();
  record.step = step;
  record.site = site;
  record.thread = thread_ordinal();
  record.task_id = next_task_[step.graph]++;
  record.failed = false;
  record.overflowed = false;
  record.timestamp_us = now_us();
  record.attributes = 0;
  record.tensors.clear();
  record.tensors.reserve(8);
}

// What the plan's mode makes of an op, beside what is selected of it.
unsigned Session::begin_in_mode(Op& op, bool flagged) {
  ++ops_seen_;
  if (flagged) ++ops_flagged_;
  op.deferred = false;
  op.before.clear();
  if (holds_) {
    op.wanted = {};
    return SONDE_WANT_STRUCTURE | (looks_ ? SONDE_WANT_CHECK : SONDE_WANT_FAILURE);
  }
  return SONDE_WANT_STRUCTURE | (op.wanted.watched ? SONDE_WANT_WEAK_REF : 0u) |
         (op.wanted.checks ? SONDE_WANT_WATCHED : 0u);
}

void Session::op_input_before(Op& op, std::uint32_t slot, const sonde_tensor& tensor) {
  if (holds_) {
    add_before(op, slot, tensor);
  } else {
    add_tensor(op, true, slot, tensor);
  }
}

void Session::op_input(Op& op, std::uint32_t slot, const sonde_tensor& tensor) { add_tensor(op, true, slot, tensor); }

void Session::op_mutated(Op& op, std::uint64_t storage) {
  const std::lock_guard lock(mutex_);
  if (!is_stale(op)) identity_.wrote(storage, op.record.sequence);
}

void Session::storages_freed(std::span<const std::uint64_t> storages) {
  const std::lock_guard lock(mutex_);
  for (const std::uint64_t storage : storages) {
    identity_.forget(storage);
    named_.erase(storage);
  }
}

void Session::storage_changed(std::uint64_t storage) {
  const std::lock_guard lock(mutex_);
  if (storage == 0) {
    identity_.forget_contents();
  } else {
    identity_.wrote(storage, kNoSequence);
  }
}

void Session::op_output(Op& op, std::uint32_t slot, const sonde_tensor& tensor) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stale(op)) return;
    identity_.made(place_of(tensor), {op.record.sequence, slot});
    if ((tensor.flags & SONDE_TENSOR_UNINITIALISED) != 0) identity_.uninitialised(tensor.storage);
  }
  if (looks_ && op.deferred) op_check_output(op, tensor);  // a collective's: nobody could look at it before
  add_tensor(op, false, slot, tensor);
  if (op.wanted.watched) watch(op, slot, tensor);
}

void Session::op_end(Op& op, bool failed) {
  op.record.failed = failed;
  settle_before(op, op.record.overflowed || (catches_ && failed));
  // Slots in order, inputs first: the host reports them as their bytes are best read.
  std::ranges::stable_sort(op.record.tensors, [](const TensorRecord& a, const TensorRecord& b) {
    return a.is_input != b.is_input ? a.is_input : a.slot < b.slot;
  });
  for (TensorRecord& tensor : op.record.tensors) tensor.timestamp_us = op.record.timestamp_us;
  submit(op);
  // The program may be gone a moment later: nothing that says why may still be on its way.
  if (catches_ && failed) op.recorder->flush();
}

std::unique_ptr<Op> Session::op_defer(Op& op) {
  auto rest = std::make_unique<Op>();
  rest->owner = this;
  rest->wanted = op.wanted;
  rest->backward = op.backward;
  rest->deferred = true;
  rest->beginning = op.beginning;
  rest->recorder = op.recorder;
  Record& record = rest->record;
  record.completes = true;
  record.op = op.record.op;
  record.sequence = op.record.sequence;
  record.step = op.record.step;
  record.site = op.record.site;
  record.thread = op.record.thread;
  record.task_id = op.record.task_id;
  record.timestamp_us = op.record.timestamp_us;
  op_end(op, false);
  return rest;
}

// What there is to know of a tensor without its bytes. False: they cannot be read.
bool Session::describe(Op& op, bool is_input, std::uint32_t slot, const sonde_tensor& tensor, TensorRecord& record) {
  record.is_input = is_input;
  record.slot = slot;
  record.dtype = static_cast<DType>(tensor.dtype);
  record.shape = Dims({tensor.shape, tensor.ndim});
  record.wanted = op.wanted.slot(is_input, slot);
  if (is_input) {
    record.constant = constant_of(tensor);
    const std::lock_guard lock(mutex_);
    if (is_stale(op)) return false;
    const Origin origin = identity_.origin_of(place_of(tensor), op.record.sequence);
    if (origin.sequence != op.record.sequence) {
      record.source = origin.sequence;
      record.source_slot = origin.slot;
      if (op.wanted.producers) add_producer(origin.sequence);
    }
  }
  if (tensor.skip != nullptr || access_of(tensor) == nullptr) {
    record.skipped = tensor.skip != nullptr ? tensor.skip : "on a device that this build cannot read";
    return false;
  }
  const TensorView view = view_of(tensor);
  // A few bytes can be expanded to terabytes, which no reader of the dump could open.
  const bool huge =
      !has_countable_bytes(tensor) || (view.bytes() > plan_.sonde.budget_bytes && tensor.storage_data != nullptr &&
                                       view.bytes() > tensor.storage_bytes);
  if (huge) {
    record.skipped = "an expanded view larger than budget_bytes";
    return false;
  }
  const bool brings_parameter =
      (op.wanted.any() && !op.wanted.excludes(is_input, slot)) || !selector_->parameters_follow_ops();
  if (is_input && brings_parameter) {
    emit_named(op, tensor, record);
    if (record.tensor_name == 0) emit_unwritten(op, tensor, record);
  }
  return true;
}

void Session::add_tensor(Op& op, bool is_input, std::uint32_t slot, const sonde_tensor& tensor) {
  TensorRecord& record = op.record.tensors.emplace_back();
  if (!describe(op, is_input, slot, tensor, record) || !reads_) return;
  TensorKey key = key_of(tensor, view_of(tensor));
  const bool reread = is_input && plan_.sonde.reread;
  {
    const std::lock_guard lock(mutex_);
    const Identity::Found found = identity_.find(key);
    if (found.uninitialised && !reread) {
      record.skipped = "uninitialised memory";
      return;
    }
  }
  if (reread) key.storage = 0;
  read(*op.recorder, tensor, key, record.wanted, record);
}

void Session::emit_named(const Op& op, const sonde_tensor& tensor, TensorRecord& record) {
  const StepId step = op.record.step;
  const OpName* name = nullptr;
  sonde_tensor whole = tensor;
  Dims shape, strides;
  {
    const std::lock_guard lock(mutex_);
    const auto it = named_.find(tensor.storage);
    if (it == named_.end() || is_stale(op)) return;
    const std::uint64_t bytes = std::max<std::uint64_t>(view_of(tensor).bytes(), 1);
    for (NamedTensor& candidate : it->second) {
      if (!overlaps(tensor.data, bytes, candidate.data, candidate.extent_bytes)) continue;
      record.tensor_name = candidate.name->id;
      if (!candidate.wanted || candidate.emitted_stamp == step_stamp_[step.graph]) return;
      candidate.emitted_stamp = step_stamp_[step.graph];
      name = candidate.name;
      shape = candidate.shape;
      strides = candidate.strides;
      whole.data = candidate.data;
      whole.dtype = static_cast<std::int32_t>(candidate.dtype);
      break;
    }
  }
  if (name == nullptr) return;
  whole.shape = shape.values().data();
  whole.strides = strides.values().data();
  whole.ndim = static_cast<std::uint32_t>(shape.size());
  // The name was given at the start of the step; memory that was resized since is not that tensor any more.
  const auto* begin = static_cast<const std::byte*>(tensor.storage_data);
  const auto* data = static_cast<const std::byte*>(whole.data);
  if (data < begin || data + extent_bytes(view_of(whole)) > begin + tensor.storage_bytes) return;
  emit_parameter(*op.recorder, *name, whole, op.record, false);
}

// What backward finds unwritten for the first time, an op of the forward has saved for it inside.
void Session::emit_unwritten(const Op& op, const sonde_tensor& tensor, TensorRecord& record) {
  const StepId step = op.record.step;
  if (tensor.storage == 0 || (tensor.flags & SONDE_TENSOR_CONSTANT) != 0) return;
  const OpName* name = nullptr;
  {
    const std::lock_guard lock(mutex_);
    TensorKey probe;
    probe.storage = tensor.storage;
    if (is_stale(op) || identity_.find(probe).written) return;
    auto& names = data_names_[step.graph];
    if (op.backward && !names.contains(tensor.storage)) return;
    if (op.recorder->layout().has_constants()) {
      // They are those of one step, each under its name as long as it lives; what comes later is data, not a constant.
      std::uint64_t& collected_in = constants_stamp_[step.graph];
      if (collected_in == 0) collected_in = step_stamp_[step.graph];
      if (collected_in != step_stamp_[step.graph] && !names.contains(tensor.storage)) return;
    }
    const auto [it, fresh] = names.try_emplace(tensor.storage, static_cast<std::uint32_t>(names.size()));
    name = &parameter_name(fmt::format("data-{}", it->second));
    record.tensor_name = name->id;
    if (!fresh || !emits_parameters_ || !selector_->decide_parameter(name->full_name)) return;
  }
  emit_parameter(*op.recorder, *name, tensor, op.record, op.recorder->layout().has_constants());
}

void Session::emit_parameter(Recorder& recorder, const OpName& name, const sonde_tensor& tensor, const Record& reader,
                             bool in_constants) {
  Record record;
  record.kind = RecordKind::parameter;
  record.in_constants = in_constants;
  record.op = &name;
  record.reader = reader.op;
  record.step = reader.step;
  record.thread = thread_ordinal();
  record.timestamp_us = now_us();
  TensorRecord& out = record.tensors.emplace_back();
  out.dtype = static_cast<DType>(tensor.dtype);
  out.shape = Dims({tensor.shape, tensor.ndim});
  out.tensor_name = name.id;
  out.timestamp_us = record.timestamp_us;
  if (reads_) read(recorder, tensor, key_of(tensor, view_of(tensor)), true, out);
  record.sequence = recorder.next_sequence();
  recorder.push(std::move(record));
}

// Fills content, statistics and bytes of `out`: from what is known, else from memory.
void Session::read(Recorder& recorder, const sonde_tensor& tensor, const TensorKey& key, bool wanted,
                   TensorRecord& out) {
  std::optional<Written> written;
  const TensorView whole = view_of(tensor);
  const DeviceAccess& access = *access_of(tensor);
  if (reshapes_ && wanted) {
    written.emplace(whole, plan_, access);
    out.shape = Dims(written->view().shape);
    out.format = written->format();
  }
  const TensorView& view = written ? written->view() : whole;
  const bool need_bytes = plan_.wants_tensors();
  const bool statistics_exist = info(view.dtype).has_statistics;
  Content content;
  std::uint64_t epoch = 0;
  {
    const std::lock_guard lock(mutex_);
    const Identity::Found found = identity_.find(key);
    // A file with all tensors of an op holds the bytes of each, known or not.
    const bool again = need_bytes && recorder.layout().tensor_form() == TensorForm::container;
    if (found.same != nullptr && (!wanted || !need_bytes || (found.same->has_bytes && !again))) {
      tell_content(*found.same, out);
      return;
    }
    if (!wanted) return;
    // Bytes and statistics are of one reading: somebody may have written the memory unseen since the last one.
    if (found.same_set != nullptr && !need_bytes) {
      content.has_statistics = found.same_set->has_statistics;
      content.statistics = found.same_set->statistics;
    }
    if (found.same != nullptr && again) content.id = found.same->id;
    if (content.id == 0) content.id = next_content_++;
    epoch = found.epoch;
  }
  if (view.elements() == 0) {
    out.skipped = "empty tensor";
    return;
  }
  if (info(view.dtype).dtype == DType::undefined) {
    out.skipped = "element type not supported";
    return;
  }
  if (need_bytes) {
    const bool wait = plan_.sonde.when_full == WhenFull::wait;
    out.bytes = wait ? recorder.blocks().take(view.bytes()) : recorder.blocks().try_take(view.bytes());
    if (out.bytes == nullptr) {
      out.skipped = plan_.sonde.when_full == WhenFull::drop ? "dropped: the budget was full"
                                                            : "statistics only: the budget was full";
      if (plan_.sonde.when_full == WhenFull::drop) return;
    }
  }
  const DeviceAccess& reader = *device_access(view.device);  // a sample may be on the host by now
  const bool summarises = statistics_exist && !content.has_statistics;
  if (out.bytes || summarises) out.bytes_read = view.bytes();
  if (summarises) {
    content.statistics = out.bytes ? reader.summarize_and_copy(view, out.bytes->data) : reader.summarize(view);
    content.has_statistics = true;
    content.statistics.first_is_nan = plan_.sonde.acl_quirks && first_is_nan(reader, view, content.statistics);
  } else if (out.bytes) {
    reader.copy_c_order(view, out.bytes->data);
  }
  content.has_bytes = out.bytes != nullptr;
  if (plan_.wants(Category::md5) && content.md5.empty()) content.md5 = reader.md5_hex(view);
  if (plan_.wants(Category::sha1) && content.sha1.empty()) content.sha1 = reader.sha1_hex(view);
  tell_content(content, out);
  const std::lock_guard lock(mutex_);
  identity_.insert(key, std::move(content), epoch);
}

}  // namespace sonde
