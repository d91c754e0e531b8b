#include "ask/verify/complete_dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <set>

#include "ask/verify/journal_replay.h"
#include "dump/formats/tensor_file.h"
#include "dump/journal/journal.h"
#include "dump/journal/live_run.h"
#include "dump/layout/side_names.h"
#include "ground/base/clock.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "ground/files/mapped_file.h"
#include "ground/files/safe_path.h"
#include "read/catalog/catalog.h"
#include "read/catalog/dump_tree.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// Bytes up to the last newline, which is included.
std::string_view whole_rows(std::string_view text) {
  const std::size_t end = text.rfind('\n');
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

std::multiset<std::string_view> rows_of(std::string_view text) {
  std::multiset<std::string_view> rows;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    rows.insert(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return rows;
}

// Tables that grow from step to step; all other files are written once.
bool grows(const std::string& name) {
  return name == "statistic.csv" || is_history_name(name) || is_graph_steps_name(name);
}

// Makes a finished file writable while its end changes.
class OpenedEnd {
 public:
  OpenedEnd(int directory, const fs::path& path) : path_(path) {
    struct stat status {};
    if (::fstatat(directory, path.filename().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) mode_ = status.st_mode & 0777;
    fd_ = open_own_file(directory, path, Access::append);
  }
  ~OpenedEnd() {
    if (fd_) ::fchmod(fd_->get(), mode_);
  }
  OpenedEnd(const OpenedEnd&) = delete;
  OpenedEnd& operator=(const OpenedEnd&) = delete;

  Status cut(std::uint64_t bytes) {
    if (!fd_) return fd_.error();
    return ::ftruncate(fd_->get(), static_cast<off_t>(bytes)) == 0 ? Status()
                                                                   : io_error("repair the end of", path_, errno);
  }
  Status append(const std::string& bytes) {
    if (!fd_) return fd_.error();
    const int error_number = write_all(fd_->get(), bytes.data(), bytes.size());
    return error_number == 0 ? Status() : io_error("append to", path_, error_number);
  }

 private:
  fs::path path_;
  mode_t mode_ = kFinishedMode;
  Result<Fd> fd_ = Error{ErrorCode::io, "not opened"};
};

// The directory that contains `.dump_metadata`. All changes are below it, or below the rank's directory.
fs::path root_of(const fs::path& metadata) {
  fs::path at = metadata;
  while (at.has_relative_path() && at.filename() != kMetadataDirectory) at = at.parent_path();
  return at.parent_path();
}

// One rank with a journal, locked.
class RankCompleter {
 public:
  RankCompleter(const CatalogRank& rank, Completion& done)
      : rank_(rank), own_(own_directory_in(rank.metadata)), journal_(journal_in(rank.metadata)), done_(done) {}

  Status complete() {
    if (Status opened = open_places(); !opened) return opened;
    if (Status free = lock(); !free) return free;
    const Result<Fd> aside = open_below(own_directory_.get(), own_, kAside, Missing::make);
    if (!aside) {
      done_.notes.push_back(aside.error().message + "; nothing is made again");
      return {};
    }
    remove_numbered(aside->get(), 2);
    if (rank_.runs.empty()) return trim_first_entry();
    const std::string own_name = std::to_string(::getpid());
    if (Result<Fd> made = open_below(aside->get(), own_ / kAside, own_name, Missing::make); !made) return made.error();
    const Status status = make_again(own_ / kAside / own_name);
    remove_numbered(aside->get(), 2);
    return status;
  }

 private:
  static constexpr const char* kAside = "partial";

  Status open_places() {
    Result<Fd> own = open_in_dump(root_of(rank_.metadata), own_, Missing::leave);
    if (!own) return own.error();
    own_directory_ = std::move(*own);
    Result<Fd> rank = open_dump_path(rank_.directory, Missing::leave);
    if (!rank) return rank.error();
    rank_directory_ = std::move(*rank);
    return {};
  }

  Status lock() {
    Result<Fd> owner = open_own_file(own_directory_.get(), own_ / "owner", Access::read);
    if (!owner) return owner.error().code == ErrorCode::not_found ? Status() : owner.error();
    owner_ = std::move(*owner);
    if (!is_locked_elsewhere(owner_.get())) return {};
    return Error{ErrorCode::busy, "cannot complete '" + rank_.directory.string() +
                                      "': a run is recording there; wait until it has ended"};
  }

  Status make_again(const fs::path& scratch) {
    JournalReplay replay(rank_, scratch);
    const Result<Journal> journal = read_journal(journal_, &replay);
    if (!journal) return journal.error();
    Status status = replay.finish();
    for (const std::string& note : replay.notes()) done_.notes.push_back(note);
    if (status) status = take_over(replay.directory());
    if (status) status = trim_tables();
    if (status) status = trim_journal(*journal);
    return status ? enter_files(*journal) : status;
  }

  // The directory of a file of the rank. Does not follow a link in the dump.
  Result<Fd> directory_of(const fs::path& relative, Missing missing) const {
    return open_below(rank_directory_.get(), rank_.directory, relative.parent_path(), missing);
  }

  // `.dump_metadata/sonde`, in o2 `.dump_metadata/device_N/sonde`: the journal of the replay itself.
  static bool is_own(const fs::path& relative) {
    const auto parts = std::distance(relative.begin(), relative.end());
    return parts <= 3 && *relative.begin() == kMetadataDirectory &&
           relative == own_directory_in(relative.parent_path());
  }

  Status take_over(const fs::path& made) {
    std::error_code error;
    if (made.empty()) return {};
    fs::recursive_directory_iterator at(made, error);
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      const fs::path relative = at->path().lexically_relative(made);
      if (is_own(relative)) at.disable_recursion_pending();
      if (!at->is_regular_file()) continue;
      const Result<Fd> directory = directory_of(relative, Missing::make);
      const Status ours =
          directory ? check_replaceable(directory->get(), rank_.directory / relative) : Status(directory.error());
      if (!ours) {
        done_.notes.push_back(ours.error().message);
        continue;
      }
      if (Status status = take_file(at->path(), directory->get(), rank_.directory / relative); !status) return status;
    }
    return error ? Status(Error{ErrorCode::io, "cannot look into '" + made.string() + "': " + error.message()})
                 : Status();
  }

  Status take_file(const fs::path& made, int directory, const fs::path& real) {
    struct stat status {};
    const bool is_there = ::fstatat(directory, real.filename().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && !grows(real.filename())) return {};
    if (!is_there) return put(made, directory, real, done_.made);
    const Result<std::string> own = read_whole_file(made), other = read_whole_file(real);
    if (!own || !other) return own ? other.error() : own.error();
    if (*own == *other) return {};
    const std::string_view whole = whole_rows(*other);
    if (whole == *own) return put(made, directory, real, done_.trimmed);
    if (!own->starts_with(whole)) {
      const std::multiset<std::string_view> has = rows_of(whole), makes = rows_of(*own);
      if (!std::ranges::includes(makes, has)) {
        done_.kept.push_back(real);
        return {};
      }
    }
    return put(made, directory, real, done_.made);
  }

  static Status put(const fs::path& made, int directory, const fs::path& real, std::vector<fs::path>& written) {
    if (::renameat(AT_FDCWD, made.c_str(), directory, real.filename().c_str()) != 0)
      return io_error("write", real, errno);
    written.push_back(real);
    return {};
  }

  // Also names that are not in the journal.
  Status trim_tables() {
    std::error_code error;
    fs::recursive_directory_iterator at(rank_.directory, fs::directory_options::skip_permission_denied, error);
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      const std::string name = at->path().filename();
      if (name == "partial" || name == kSourcesDirectory) at.disable_recursion_pending();
      if (!name.ends_with(".csv") || at->is_symlink() || !at->is_regular_file()) continue;
      const Result<std::string> text = read_whole_file(at->path());
      if (!text || text->empty() || text->ends_with('\n')) continue;
      const Result<Fd> directory = directory_of(at->path().lexically_relative(rank_.directory), Missing::leave);
      if (!directory) return directory.error();
      OpenedEnd file(directory->get(), at->path());
      if (Status status = file.cut(whole_rows(*text).size()); !status) return status;
      done_.trimmed.push_back(at->path());
    }
    return {};
  }

  Status trim_journal(const Journal& journal) {
    if (journal.gaps.empty() || !journal.gaps.back().is_tail) return {};
    const JournalGap& last = journal.gaps.back();
    std::error_code error;
    if (fs::file_size(journal_, error) != last.offset + last.bytes || error) return {};
    OpenedEnd file(own_directory_.get(), journal_);
    if (Status status = file.cut(last.offset); !status) return status;
    done_.trimmed.push_back(journal_);
    return {};
  }

  Status trim_first_entry() {
    const Result<Journal> journal = read_journal(journal_);
    return journal ? trim_journal(*journal) : Status(journal.error());
  }

  // A run that lacks files gets another run that mends it, at the end of the journal.
  Status enter_files(const Journal& journal) {
    std::set<std::string_view> named;
    for (const JournalRun& run : journal.runs) {
      for (const JournalRecord& record : run.records) {
        for (const JournalTensor& slot : record.tensors) named.insert(slot.file);
      }
    }
    std::map<std::size_t, JournalWriter> writers;  // by run
    std::map<std::size_t, std::uint32_t> next_id;
    for (const CatalogStep& step : rank_.steps) {
      if (step.run >= journal.runs.size()) continue;
      for (const CatalogOp& op : step.ops) {
        const auto is_missing = [&](const CatalogTensor& tensor) {
          return !tensor.file.empty() && !named.contains(tensor.file);
        };
        if (std::ranges::none_of(op.tensors, is_missing)) continue;
        const auto [writer, is_new] = writers.try_emplace(step.run);
        if (is_new) begin(journal.runs[step.run], step.run, writer->second, next_id[step.run]);
        enter(journal.runs[step.run], step, op, is_missing, writer->second, next_id[step.run]);
      }
    }
    if (writers.empty()) return {};
    std::string bytes;
    for (auto& [run, writer] : writers) {
      writer.end("{}");
      bytes += writer.buffer();
    }
    OpenedEnd file(own_directory_.get(), journal_);
    return file.append(bytes);
  }

  static void begin(const JournalRun& run, std::size_t number, JournalWriter& writer, std::uint32_t& next_id) {
    for (const OpName& name : run.op_names) next_id = std::max(next_id, name.id);
    writer.run("{\"mends\":" + std::to_string(number) + ",\"started_us\":" + std::to_string(now_us()) + "}");
  }

  template <typename IsMissing>
  void enter(const JournalRun& run, const CatalogStep& step, const CatalogOp& op, const IsMissing& is_missing,
             JournalWriter& writer, std::uint32_t& next_id) {
    const bool is_known =
        std::ranges::any_of(run.records, [&](const JournalRecord& record) { return record.sequence == op.sequence; });
    Record record;
    const OpName name{is_known ? 0 : ++next_id, std::string(op.op_type), std::string(op.op_name)};
    record.kind = op.is_parameter ? RecordKind::parameter : RecordKind::op;
    record.sequence = op.sequence;
    record.step = step.id;
    record.op = &name;
    record.timestamp_us = op.timestamp_us;
    std::vector<const CatalogTensor*> entered;
    for (const CatalogTensor& tensor : op.tensors) {
      if (!is_missing(tensor)) continue;
      const Result<TensorFile> file = open_file(rank_, tensor);
      if (!file) {
        done_.notes.push_back(file.error().message);
        continue;
      }
      TensorRecord& slot = record.tensors.emplace_back();
      slot.meta() = tensor;
      if (slot.dtype == DType::undefined) slot.dtype = file->dtype();
      slot.set_shape(file->shape());
      entered.push_back(&tensor);
    }
    if (entered.empty()) return;
    if (!is_known) {
      writer.op_name(name);
      writer.record(record);
    }
    for (const CatalogTensor* tensor : entered) {
      writer.file(op.sequence, tensor->is_input, tensor->slot, std::string(tensor->file));
      done_.entered.push_back(rank_.directory / tensor->file);
    }
  }

  const CatalogRank& rank_;
  const fs::path own_, journal_;
  Completion& done_;
  Fd own_directory_, rank_directory_;
  Fd owner_;  // the locked file
};

// True if only a header or an entry breaks off: nothing is lost.
bool ended_before_first_entry(const CatalogRank& rank) {
  if (!rank.has_journal || !rank.runs.empty()) return false;
  const Result<Journal> journal = read_journal(journal_in(rank.metadata));
  return journal && journal->runs.empty() && std::ranges::all_of(journal->gaps, &JournalGap::is_tail);
}

}  // namespace

Result<Completion> complete_dump(const fs::path& dump, std::optional<std::uint32_t> rank) {
  const Result<Catalog> catalog = open_catalog(dump);
  if (!catalog) return catalog.error();
  if (is_brought(dump)) {
    return Error{ErrorCode::invalid_argument,
                 "cannot complete dump '" + dump.string() + "': it is only read there; complete a copy of it"};
  }
  Completion done;
  for (const CatalogRank& one : catalog->ranks) {
    if (rank && one.rank != *rank) continue;
    if (!one.has_journal || (one.runs.empty() && !ended_before_first_entry(one))) {
      done.notes.push_back("'" + one.directory.string() + "' has no journal that can be read: nothing is made again");
      continue;
    }
    if (Status status = RankCompleter(one, done).complete(); !status) return status.error();
  }
  return done;
}

bool can_complete(const Verification& report) {
  return std::ranges::any_of(report.issues, [](const Issue& issue) {
    return issue.kind == IssueKind::unentered || issue.kind == IssueKind::torn || issue.kind == IssueKind::leftover ||
           (issue.kind == IssueKind::missing && !issue.path.native().ends_with(".npy"));
  });
}

}  // namespace sonde
