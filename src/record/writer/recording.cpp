#include "record/writer/recording.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dump/journal/run_json.h"
#include "dump/run_files/private_text.h"
#include "dump/run_files/replica_rows.h"
#include "ground/base/clock.h"
#include "ground/files/safe_path.h"
#include "record/writer/late_tensors.h"

namespace sonde {

Recording::Recording(const Plan& plan, const RunInfo& run, const Layout& layout, SpareTensors& spare, Hasher& hasher)
    : plan_(plan), run_(run), layout_(layout), spare_(spare), hasher_(hasher) {}

void Recording::open() {
  if (Status status = try_open(); !status) fail(status.error());
}

// Of several processes that claim one rank each has a directory of its own: the first that of the rank, the others the
// next free ones after the ranks of the group.
Result<RunDirectory> Recording::take_directory() {
  Result<RunDirectory> directory = open_run_directory(plan_, run_, layout_);
  while (!directory && directory.error().code == ErrorCode::busy) {
    RunInfo next = run_;
    next.rank = std::max(run_.rank + 1, run_.world_size);
    const Layout other = Layout::make(plan_, next);
    if (other.own_directory() == layout_.own_directory()) break;  // this tree has no ranks
    run_ = next;
    layout_ = other;
    directory = open_run_directory(plan_, run_, layout_);
  }
  return directory;
}

Status Recording::try_open() {
  Result<RunDirectory> directory = take_directory();
  if (!directory) return directory.error();
  directory_ = std::move(*directory);
  TensorWriterOptions options;
  options.raw_bfloat16 = plan_.sonde.raw_bfloat16;
  options.pack = plan_.sonde.pack;
  Result<TensorWriter> tensors = TensorWriter::open(layout_, directory_.aside, options);
  if (!tensors) return tensors.error();
  const std::string header = run_json(plan_, run_, directory_.config_file, now_us());
  Result<RunFiles> files = RunFiles::open(plan_, layout_, directory_.aside, header, run_.host_graphs);
  if (!files) return files.error();
  Result<Fd> aside = open_in_dump(layout_.root(), directory_.aside, Missing::leave);
  if (!aside) return aside.error();
  tensors_ = std::move(*tensors);
  files_ = std::move(*files);
  aside_ = std::move(*aside);
  op_files_.emplace(plan_, layout_, aside_.get(), tensors_->places());
  return files_->flush();
}

void Recording::define(const Site& site) {
  if (!error_) files_->define(site);
}

void Recording::define(const OpName& name) {
  if (!error_) files_->define(name);
}

void Recording::define(const Attributes& attributes) {
  if (error_) return;
  files_->define(attributes);
  op_files_->define(attributes);
}

void Recording::define(const SourceText& text) {
  if (!error_) files_->define(text);
}

void Recording::add(Record&& record) {
  if (error_) return drop(record);
  settle_late_tensors(plan_, record, &hasher_);
  stored_.clear();
  if (plan_.wants_tensors()) {
    if (Status status = tensors_->store(record, stored_); !status) fail(status.error());
  }
  drop(record);  // frees the remaining bytes: after a failure, or if the plan needs none
  const std::uint64_t sequence = record.sequence;
  const bool ends_step = record.kind == RecordKind::step_end;
  if (record.completes) {
    complete(std::move(record));
  } else if (Reorder::Entry* entry = reorder_.at(sequence)) {
    entry->settled = true;
    entry->record = std::move(record);
  } else {
    append(std::move(record), {});
  }
  attach(stored_);
  if (ends_step) hash(true);
  append_ready(error_.has_value());
}

void Recording::hash(bool at_once) {
  if (hasher_.is_idle()) return;
  hasher_.run(at_once);
  append_ready(false);
}

// The op that it completes is already on disk, or still waits for its turn.
void Recording::complete(Record&& record) {
  Reorder::Entry* entry = reorder_.waiting(record.sequence);
  if (entry == nullptr) return append(std::move(record), {}, stored_);
  entry->record->failed = entry->record->failed || record.failed;
  entry->record->overflowed = entry->record->overflowed || record.overflowed;
  std::ranges::move(record.tensors, std::back_inserter(entry->record->tensors));
}

void Recording::drop(Record& record) {
  for (TensorRecord& tensor : record.tensors) {
    if (tensor.bytes) totals_.bytes_dropped += tensor.bytes->bytes;
    tensor.bytes.reset();
    if (tensor.late != nullptr) tensor.late->bytes.reset();
  }
}

void Recording::skip(std::uint64_t from, std::uint64_t to) {
  if (error_) return;
  reorder_.skip(from, to);
  append_ready(false);
}

void Recording::note(const std::string& text) {
  if (!error_) files_->append_note(note_text(plan_, text));
}

void Recording::count_dropped(std::uint64_t records, std::uint64_t bytes) {
  totals_.records_dropped += records;
  totals_.bytes_dropped += bytes;
}

void Recording::attach(const std::vector<StoredFile>& stored) {
  for (const StoredFile& file : stored) {
    Reorder::Entry* entry = reorder_.at(file.sequence);
    if (entry != nullptr) {
      entry->files.push_back(file);
    } else {
      files_->append_file(file);
    }
  }
}

void Recording::append_ready(bool force) {
  while (const Record* next = reorder_.next(force)) {
    if (!force && !has_hashes(*next)) return;
    Reorder::Entry entry = reorder_.pop();
    append(std::move(*entry.record), entry.files);
  }
}

bool Recording::has_hashes(const Record& record) {
  return std::ranges::all_of(record.tensors,
                             [](const TensorRecord& tensor) { return !tensor.hashes || tensor.hashes->done; });
}

void Recording::settle_hashes(Record& record) {
  if (!has_hashes(record)) hasher_.run_all();
  for (TensorRecord& tensor : record.tensors) {
    if (!tensor.hashes) continue;
    tensor.md5 = tensor.hashes->md5;
    tensor.sha1 = tensor.hashes->sha1;
    tensor.hashes.reset();
  }
}

void Recording::append(Record&& record, const std::vector<StoredFile>& stored, const std::vector<StoredFile>& later) {
  count(record);
  settle_hashes(record);
  const bool ends_step = record.kind == RecordKind::step_end;
  const StepId step = record.step;
  Status status = files_->append(record, stored);
  if (status && !error_) status = add_replicas(record, stored.empty() ? later : stored);
  if (status && !error_) status = op_files_->append(record);
  spare_.give(std::move(record.tensors));  // unless they wait there for a table
  if (status && !error_ && ends_step) status = op_files_->flush();
  if (!status) fail(status.error());
  if (ends_step) {
    flush_tensors();
    tensors_->close_step(step);
  }
}

// A small file, which other ranks' readers need and nobody else: the journal does not wait for it.
Status Recording::add_replicas(const Record& record, const std::vector<StoredFile>& stored) {
  if (plan_.sonde.replicas != Replicas::first || stored.empty()) return {};
  const std::string lines = replica_lines(record, stored);
  if (lines.empty()) return {};
  if (!replicas_) {
    const std::filesystem::path path = replicas_in_own(layout_.own_directory());
    Result<Fd> directory = open_in_dump(layout_.root(), path.parent_path(), Missing::leave);
    if (!directory) return directory.error();
    Result<AppendFile> file = AppendFile::open(directory->get(), path, "");
    if (!file) return file.error();
    replicas_ = std::move(*file);
  }
  constexpr std::size_t kManyBytes = 1 << 20;
  replicas_->rows() += lines;
  return replicas_->rows().size() >= kManyBytes ? replicas_->flush() : Status();
}

void Recording::count(const Record& record) {
  if (record.kind == RecordKind::step_begin) ++totals_.steps;
  if (record.kind == RecordKind::op && !record.completes) ++totals_.ops;
  for (const TensorRecord& tensor : record.tensors) {
    totals_.bytes_read += tensor.bytes_read;
    if (tensor.wanted && (tensor.has_statistics || tensor.content != 0)) ++totals_.tensors;
  }
}

// The journal names a tensor of a pack only when its bytes are on the disk.
void Recording::flush_tensors() {
  if (error_ || !plan_.sonde.pack) return;
  std::vector<StoredFile> stored;
  const Status status = tensors_->flush(stored);
  attach(stored);
  if (!status) fail(status.error());
}

void Recording::flush_appends() {
  flush_tensors();
  if (error_) return;
  Status status = files_->flush();
  if (status) status = op_files_->flush();
  if (status && replicas_) status = replicas_->flush();
  if (!status) fail(status.error());
}

void Recording::flush_all() {
  if (error_) return;
  append_ready(true);
  flush_appends();
}

void Recording::fail(Error error) {
  if (error_) return;
  error_ = std::move(error);
  if (!files_) return;
  // Records with files on disk are still added to the journal, if possible; then the reason. A pack must not keep the
  // memory that the training waits for.
  std::vector<StoredFile> stored;
  static_cast<void>(tensors_->flush(stored));
  attach(stored);
  append_ready(true);
  files_->append_note(note_text(plan_, "recording stopped: " + error_->message));
  if (Status flushed = files_->flush(); flushed && op_files_) static_cast<void>(op_files_->flush());
}

void Recording::close() {
  flush_all();
  totals();
  if (files_) {
    const bool failed = error_.has_value();
    std::optional<Error> shown = error_;
    if (shown) shown->message = note_text(plan_, shown->message);
    Status status = files_->finish(end_json(totals_, shown, now_us()), failed);
    if (!status && !error_) error_ = status.error();
  }
  totals();
  replicas_.reset();
  op_files_.reset();
  tensors_.reset();
  files_.reset();
  close_run_directory(directory_);
}

bool Recording::has_unflushed() const { return !hasher_.is_idle() || (!error_ && files_ && files_->has_unflushed()); }

int Recording::owner() const { return directory_.owner.get(); }

const Totals& Recording::totals() {
  if (tensors_) {
    totals_.files = tensors_->files();
    totals_.bytes_written = tensors_->bytes_written();
  }
  if (files_) {
    totals_.rows = files_->rows() + (op_files_ ? op_files_->rows() : 0);
    totals_.bytes_written =
        (tensors_ ? tensors_->bytes_written() : 0) + files_->row_bytes() + (op_files_ ? op_files_->row_bytes() : 0);
  }
  return totals_;
}

}  // namespace sonde
