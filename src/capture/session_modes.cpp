// Modes of Session that keep only some operators: those that overflowed, the one that threw, and what a watcher reads.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "capture/host_tensor.h"
#include "capture/session.h"
#include "config/op_types.h"
#include "stats/device.h"
#include "stats/finite.h"

namespace sonde {
namespace {

// Records of one step that wait for something to be found in it.
constexpr std::size_t kMostHeld = 1 << 16;

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string place_text(const Record& record, const Site& site) {
  if (site.trace.empty()) return record.op->full_name;
  const SourceLine& line = site.trace.front();
  return fmt::format("{} ({}:{})", record.op->full_name, line.file, line.line);
}

}  // namespace

// --- set_dump --------------------------------------------------------------------------------------------------------

void Session::flag_type(std::string_view type, bool enabled) {
  const std::lock_guard lock(mutex_);
  std::erase_if(flagged_types_, [&](const std::string& known) { return same_ignoring_case(known, type); });
  if (enabled) flagged_types_.emplace_back(type);
}

bool Session::is_flagged(const Site& site) const {
  if (site.flagged) return true;
  return std::ranges::any_of(flagged_types_, [&](const std::string& type) {
    const auto is = [&](const std::string& op_type) {
      return !op_type.empty() && (same_ignoring_case(type, op_type) || is_alias(type, op_type));
    };
    return is(site.op_type) || is(site.forward_op_type);
  });
}

// --- what an op overwrites -------------------------------------------------------------------------------------------

// Statistics are taken at once, which costs less than a copy; of bytes and hashes only a copy can be kept.
void Session::add_before(Op& op, std::uint32_t slot, const sonde_tensor& tensor) {
  TensorRecord& record = op.record.tensors.emplace_back();
  if (!describe(op, true, slot, tensor, record) || !reads_) return;
  const TensorView view = view_of(tensor);
  const TensorKey key = key_of(tensor, view);
  {
    const std::lock_guard lock(mutex_);
    if (identity_.find(key).uninitialised) {
      record.skipped = "uninitialised memory";
      return;
    }
  }
  if (view.elements() == 0) {
    record.skipped = "empty tensor";
    return;
  }
  Snapshot snapshot;
  snapshot.index = op.record.tensors.size() - 1;
  if (!plan_.wants_tensors() && !plan_.wants(Category::md5) && !plan_.wants(Category::sha1) && !reshapes_) {
    read(*op.recorder, tensor, key, true, record);
  } else {
    snapshot.image = op.recorder->blocks().take(view.bytes());
    if (snapshot.image == nullptr) {
      record.skipped = "no memory for its value before the operator";
      return;
    }
    const DeviceAccess& access = *access_of(tensor);
    snapshot.shape = record.shape;
    if (key.dense) {  // as it lies: the statistics of a copy in another order would differ in their last digit
      access.copy_block(view.data, view.bytes(), snapshot.image->data);
      snapshot.strides = Dims(view.strides);
      snapshot.flags = tensor.flags & (SONDE_TENSOR_CONJUGATE | SONDE_TENSOR_NEGATIVE);
    } else {
      access.copy_c_order(view, snapshot.image->data);
    }
  }
  op.before.push_back(std::move(snapshot));
}

void Session::settle_before(Op& op, bool kept) {
  for (Snapshot& snapshot : op.before) {
    TensorRecord& record = op.record.tensors[snapshot.index];
    record.wanted = kept;
    if (!kept || snapshot.image == nullptr) continue;
    sonde_tensor image{};
    image.size = sizeof image;
    image.dtype = static_cast<std::int32_t>(record.dtype);
    image.data = snapshot.image->data;
    image.flags = snapshot.flags;
    image.ndim = static_cast<std::uint32_t>(snapshot.shape.size());
    image.shape = snapshot.shape.values().data();
    std::vector<std::int64_t> strides(snapshot.strides.values().begin(), snapshot.strides.values().end());
    if (strides.size() != snapshot.shape.size()) {  // the copy is in C order
      strides.assign(snapshot.shape.size(), 1);
      for (std::size_t d = strides.size(); d-- > 1;)
        strides[d - 1] = strides[d] * std::max<std::int64_t>(snapshot.shape[d], 1);
    }
    image.strides = strides.data();
    read(*op.recorder, image, key_of(image, view_of(image)), true, record);
  }
  op.before.clear();
}

// --- op_debug_mode 3 -------------------------------------------------------------------------------------------------

bool Session::is_finite(Op& op, const sonde_tensor& output) {
  const TensorView view = view_of(output);
  if (!can_be_non_finite(view.dtype) || view.elements() == 0) return true;
  const TensorKey key = key_of(output, view);
  const std::uint64_t extent = extent_bytes(view);
  std::uint64_t epoch = 0;
  {
    const std::lock_guard lock(mutex_);
    if (identity_.known_finite(key.storage, key.data, extent)) return true;
    if (identity_.find(key).uninitialised) return true;  // a view of what nobody has written
    epoch = identity_.epoch(key.storage);
  }
  bool finite = false;
  const bool kept_statistics = !op.before.empty() && op.before.front().image == nullptr;
  if (kept_statistics && info(view.dtype).has_statistics) {
    // What an op wrote in place, the next step's op overwrites: with statistics now it need not be read again then.
    TensorRecord read_now;
    read(*op.recorder, output, key, true, read_now);
    finite = read_now.has_statistics && read_now.statistics.all_finite();
  } else {
    finite = access_of(output)->all_finite(view);
  }
  if (finite && key.dense) {
    const std::lock_guard lock(mutex_);
    identity_.set_finite(key.storage, key.data, extent, epoch);
  }
  return finite;
}

void Session::op_check_output(Op& op, const sonde_tensor& output) {
  if (!looks_ || op.record.overflowed || output.skip != nullptr || access_of(output) == nullptr) return;
  if ((output.flags & SONDE_TENSOR_UNINITIALISED) != 0 || !has_countable_bytes(output)) return;
  {
    const std::lock_guard lock(mutex_);
    if (found_enough()) return;
  }
  if (is_finite(op, output)) return;
  const std::lock_guard lock(mutex_);
  if (found_enough() || is_stale(op)) return;
  settle();  // whatever the program is, this is wanted
  if (++ops_found_ == 1) note_found(op.record);
  op.record.overflowed = true;
  op.wanted = {.inputs = true, .outputs = true};
  keep_step(op.record.step.graph);
}

// --- op_debug_mode 4 -------------------------------------------------------------------------------------------------

void Session::op_failed(Op& op) {
  if (!catches_) return;
  const std::lock_guard lock(mutex_);
  if (is_stale(op)) return;
  settle();
  op.wanted = {.inputs = true, .outputs = false};
  op.record.failed = true;
  // The last one is the one that ends the run, if any does.
  ++ops_found_;
  note_found(op.record);
  keep_step(op.record.step.graph);
}

// For the closing line.
void Session::note_found(const Record& record) {
  first_found_ = place_text(record, sites_[record.site - 1]);
  if (!named_owner_) return;
  first_found_named_ = record.op->full_name;
  first_found_graph_ = record.step.graph;
}

// --- records that wait -----------------------------------------------------------------------------------------------

void Session::submit(Op& op) {
  if (!holds_) return op.recorder->push(std::move(op.record));
  const std::lock_guard lock(mutex_);
  if (!is_stale(op)) submit_locked(std::move(op.record));
}

void Session::submit_locked(Record&& record) {
  Held& held = held_[record.step.graph];
  if (!holds_ || held.kept) return recorder_->push(std::move(record));
  if (held.records.size() >= kMostHeld) {
    // The beginning of a very long step goes; that it began stays.
    const auto half = held.records.begin() + kMostHeld / 2;
    for (auto it = held.records.begin() + 1; it != half; ++it) dropped_.emplace_back(it->sequence, it->sequence + 1);
    held.records.erase(held.records.begin() + 1, half);
  }
  held.records.push_back(std::move(record));
}

// Something was found in the open step: its records are for the dump.
void Session::keep_step(std::uint32_t graph) {
  Held& held = held_[graph];
  if (std::exchange(held.kept, true)) return;
  skip_dropped();
  for (const Attributes& attributes : held_attributes_) recorder_->define(attributes);
  held_attributes_.clear();
  for (Record& record : held.records) recorder_->push(std::move(record));
  held.records.clear();
}

void Session::end_held(std::uint32_t graph) {
  Held& held = held_[graph];
  for (const Record& record : held.records) {
    if (record.completes) continue;
    if (dropped_.empty() || dropped_.back().second != record.sequence) {
      dropped_.emplace_back(record.sequence, record.sequence);
    }
    ++dropped_.back().second;
  }
  held.records.clear();
  held.kept = false;
}

void Session::skip_dropped() {
  for (const auto& [from, to] : dropped_) recorder_->skip(from, to);
  dropped_.clear();
}

// --- watcher ---------------------------------------------------------------------------------------------------------

// A watched op ran. What op_output has just recorded is what later reads are held against.
void Session::watch(Op& op, std::uint32_t slot, const sonde_tensor& output) {
  const TensorRecord& record = op.record.tensors.back();
  if (record.content == 0) return;
  Watcher::Seen seen;
  seen.fingerprint = access_of(output)->fingerprint(view_of(output));
  seen.content = content_of(record);
  const std::lock_guard lock(mutex_);
  Watcher::Watched* watched = watcher_.find(op.record.op->id);
  const std::uint64_t stamp = step_stamp_[op.record.step.graph];
  if (watched == nullptr || watched->stamp != stamp) {
    watched = &watcher_.ran(*op.record.op, op.record.step, stamp);
  }
  watched->seen[slot] = std::move(seen);
}

bool Session::op_watched(Op& op, std::uint32_t name, std::uint32_t slot, const sonde_tensor& tensor) {
  const OpName* pair = nullptr;
  const OpName* watched_name = nullptr;
  Watcher::Seen before;
  {
    const std::lock_guard lock(mutex_);
    Watcher::Watched* watched = watcher_.find(name);
    if (watched == nullptr || watched->stamp != step_stamp_[watched->step.graph] || is_stale(op)) return false;
    if (watched->step != op.record.step) return true;
    if (tensor.skip != nullptr || access_of(tensor) == nullptr) {
      watcher_.stopped(*watched, tensor.skip != nullptr ? tensor.skip : "its device cannot be read");
      return false;
    }
    const auto seen = watched->seen.find(slot);
    if (seen == watched->seen.end()) return false;
    before = seen->second;
    watched_name = watched->name;
    pair = &pair_name(*op.record.op, *watched_name);
  }
  // Memory that nobody is known to have written is what is asked about: it is read in any case.
  const std::uint64_t fingerprint = access_of(tensor)->fingerprint(view_of(tensor));
  Record record;
  record.kind = RecordKind::parameter;
  record.op = pair;
  record.reader = watched_name;  // its model is where the file belongs
  record.step = op.record.step;
  record.site = op.record.site;
  record.thread = op.record.thread;
  record.task_id = op.record.task_id;
  record.timestamp_us = now_us();
  TensorRecord& out = record.tensors.emplace_back();
  out.slot = slot;
  out.dtype = static_cast<DType>(tensor.dtype);
  out.shape = Dims({tensor.shape, tensor.ndim});
  out.timestamp_us = record.timestamp_us;
  const bool same = fingerprint == before.fingerprint;
  // Containers are files of their own: the first after another op is written, those with the same bytes are links to it.
  const bool contained = plan_.wants_tensors() && op.recorder->layout().tensor_form() == TensorForm::container;
  const bool again = contained && before.written == kNoSequence;
  if (!same || again) {
    TensorKey unknown = key_of(tensor, view_of(tensor));
    unknown.storage = 0;
    read(*op.recorder, tensor, unknown, true, out);
    if (!same) note_change(op, name, slot, fingerprint, out);
  }
  if (same) tell_content(before.content, out);
  if (contained && !out.bytes) record.repeats = before.written;
  record.sequence = op.recorder->next_sequence();
  if (contained && out.bytes) note_written(name, slot, record.sequence);
  op.recorder->push(std::move(record));
  return true;
}

void Session::note_written(std::uint32_t name, std::uint32_t slot, std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (Watcher::Watched* watched = watcher_.find(name)) watched->seen[slot].written = sequence;
}

void Session::note_change(const Op& op, std::uint32_t name, std::uint32_t slot, std::uint64_t fingerprint,
                          const TensorRecord& now) {
  const std::lock_guard lock(mutex_);
  Watcher::Watched* watched = watcher_.find(name);
  if (watched == nullptr) return;
  Watcher::Seen& seen = watched->seen[slot];
  seen.fingerprint = fingerprint;
  seen.content = content_of(now);
  watcher_.changed(*watched, slot, place_text(op.record, sites_[op.record.site - 1]));
}

const OpName& Session::pair_name(const OpName& reader, const OpName& watched) {
  const std::string text = Watcher::pair_name(reader.full_name, watched.full_name);
  const auto known = parameter_ids_.find(text);
  if (known != parameter_ids_.end()) return names_[known->second - 1];
  OpName& name = names_.emplace_back();
  name.id = static_cast<std::uint32_t>(names_.size());
  name.op_type = watched.op_type;
  name.full_name = text;
  parameter_ids_.emplace(text, name.id);
  recorder_->define(name);
  return name;
}

// --- the closing line ------------------------------------------------------------------------------------------------

std::string Session::found_line(const Totals& totals) const {
  const std::string looked = fmt::format("{} op{} of {} step{}", ops_seen_, ops_seen_ == 1 ? "" : "s", steps_seen_,
                                         steps_seen_ == 1 ? "" : "s");
  if (ops_found_ == 0) {
    return looks_ ? fmt::format("sonde: {} looked at, none overflowed", looked)
                  : fmt::format("sonde: {} ran, none threw an exception", looked);
  }
  const std::string where =
      fmt::format("recorded {} tensor{} ({} file{}, {} row{}, {:.1f} MB written) in {}", totals.tensors,
                  totals.tensors == 1 ? "" : "s", totals.files, totals.files == 1 ? "" : "s", totals.rows,
                  totals.rows == 1 ? "" : "s", static_cast<double>(totals.bytes_written) / 1e6,
                  recorder_->layout().rank_directory().string());
  if (catches_) {
    const std::string more = ops_found_ > 1 ? fmt::format(" ({} operators threw; this was the last)", ops_found_) : "";
    return fmt::format("sonde: {} threw an exception{}; its inputs: {}", first_found_, more, where);
  }
  const bool stopped = plan_.overflow_number > 0 && ops_found_ >= plan_.overflow_number;
  return fmt::format("sonde: {} op{} overflowed, the first was {}; {} looked at{}; {}", ops_found_,
                     ops_found_ == 1 ? "" : "s", first_found_, looked,
                     stopped ? fmt::format(", then overflow_number {} was reached", plan_.overflow_number) : "", where);
}

}  // namespace sonde
