#include "analysis/complete_dump.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <set>

#include "analysis/catalog.h"
#include "analysis/dump_tree.h"
#include "analysis/journal_replay.h"
#include "analysis/measure.h"
#include "store/files.h"
#include "store/journal.h"
#include "store/mapped_file.h"
#include "store/tensor_file.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

bool is_number(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
}

// Bytes up to and with the last newline.
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

// Tables that grow from step to step; all else is written once.
bool grows(const std::string& name) {
  return name == "statistic.csv" || name.starts_with("ms_global_execution_order_graph_") ||
         name.starts_with("steps_graph_");
}

// A file that was finished, for as long as its end changes.
class OpenedEnd {
 public:
  explicit OpenedEnd(const fs::path& path) : path_(path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    mode_ = status.st_mode & 0777;
    if ((mode_ & 0200) == 0 && ::chmod(path.c_str(), mode_ | 0600) != 0) return;
    fd_ = Fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  }
  ~OpenedEnd() {
    if (fd_) ::fchmod(fd_.get(), mode_);
  }
  OpenedEnd(const OpenedEnd&) = delete;
  OpenedEnd& operator=(const OpenedEnd&) = delete;

  Status cut(std::uint64_t bytes) {
    if (fd_ && ::ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0) return {};
    return io_error("repair the end of", path_, errno);
  }
  Status append(const std::string& bytes) {
    const int error_number = fd_ ? write_all(fd_.get(), bytes.data(), bytes.size()) : errno;
    return error_number == 0 ? Status() : io_error("append to", path_, error_number);
  }

 private:
  fs::path path_;
  mode_t mode_ = kFinishedMode;
  Fd fd_;
};

class Scratch {
 public:
  explicit Scratch(fs::path path) : path_(std::move(path)) {}
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// One rank with a journal, locked.
class RankCompleter {
 public:
  RankCompleter(const CatalogRank& rank, Completion& done)
      : rank_(rank), own_(rank.metadata / "sonde"), journal_(journal_in(rank.metadata)), done_(done) {}

  Status complete() {
    if (Status free = lock(); !free) return free;
    remove_leftovers();
    if (rank_.runs.empty()) return {};
    const Scratch scratch(own_ / "partial" / std::to_string(::getpid()));
    if (Status made = make_directories(scratch.path()); !made) return made;
    JournalReplay replay(rank_, scratch.path());
    const Result<Journal> journal = read_journal(journal_, &replay);
    if (!journal) return journal.error();
    Status status = replay.finish();
    for (const std::string& note : replay.notes()) done_.notes.push_back(note);
    if (status) status = take_over(replay.directory());
    if (status) status = trim_tables();
    if (status) status = trim_journal(*journal);
    return status ? enter_files(*journal) : status;
  }

 private:
  Status lock() {
    owner_ = Fd(::open((own_ / "owner").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!owner_ || ::flock(owner_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {};
    return Error{ErrorCode::busy, "cannot complete '" + rank_.directory.string() +
                                      "': a run is recording there; wait until it has ended"};
  }

  void remove_leftovers() {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(own_ / "partial", ignored)) {
      if (is_number(entry.path().filename()) && !entry.is_symlink(ignored)) fs::remove_all(entry.path(), ignored);
    }
  }

  // Nothing is written through a link that somebody put into the dump.
  bool is_plain(const fs::path& relative) {
    fs::path at = rank_.directory;
    for (const fs::path& part : relative) {
      at /= part;
      struct stat status {};
      if (::lstat(at.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) continue;
      done_.notes.push_back("'" + at.string() + "' is a symbolic link; nothing is written there");
      return false;
    }
    return true;
  }

  // `.dump_metadata/sonde`, of o2 `.dump_metadata/device_N/sonde`: the journal of the replay itself.
  static bool is_own(const fs::path& relative) {
    const auto parts = std::distance(relative.begin(), relative.end());
    return parts <= 3 && *relative.begin() == ".dump_metadata" && relative.filename() == "sonde";
  }

  Status take_over(const fs::path& made) {
    std::error_code error;
    if (made.empty()) return {};
    fs::recursive_directory_iterator at(made, error);
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      const fs::path relative = at->path().lexically_relative(made);
      if (is_own(relative)) at.disable_recursion_pending();
      if (!at->is_regular_file()) continue;
      if (!is_plain(relative)) continue;
      if (Status status = take_file(at->path(), rank_.directory / relative); !status) return status;
    }
    return error ? Status(Error{ErrorCode::io, "cannot look into '" + made.string() + "': " + error.message()})
                 : Status();
  }

  Status take_file(const fs::path& made, const fs::path& real) {
    struct stat status {};
    const bool is_there = ::lstat(real.c_str(), &status) == 0;
    if (is_there && !grows(real.filename())) return {};
    if (!is_there) {
      if (Status directories = make_directories(real.parent_path()); !directories) return directories;
      return put(made, real, done_.made);
    }
    const Result<std::string> own = read_whole_file(made), other = read_whole_file(real);
    if (!own || !other) return own ? other.error() : own.error();
    if (*own == *other) return {};
    const std::string_view whole = whole_rows(*other);
    if (whole == *own) return put(made, real, done_.trimmed);
    if (!own->starts_with(whole)) {
      const std::multiset<std::string_view> has = rows_of(whole), makes = rows_of(*own);
      if (!std::ranges::includes(makes, has)) {
        done_.kept.push_back(real);
        return {};
      }
    }
    return put(made, real, done_.made);
  }

  static Status put(const fs::path& made, const fs::path& real, std::vector<fs::path>& told) {
    if (::rename(made.c_str(), real.c_str()) != 0) return io_error("write", real, errno);
    told.push_back(real);
    return {};
  }

  // Those that the journal does not tell of, too.
  Status trim_tables() {
    std::error_code error;
    fs::recursive_directory_iterator at(rank_.directory, fs::directory_options::skip_permission_denied, error);
    for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
      const std::string name = at->path().filename();
      if (name == "partial" || name == "sources") at.disable_recursion_pending();
      if (!name.ends_with(".csv") || at->is_symlink() || !at->is_regular_file()) continue;
      const Result<std::string> text = read_whole_file(at->path());
      if (!text || text->empty() || text->ends_with('\n')) continue;
      OpenedEnd file(at->path());
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
    OpenedEnd file(journal_);
    if (Status status = file.cut(last.offset); !status) return status;
    done_.trimmed.push_back(journal_);
    return {};
  }

  // Each run that lacks files gets another that mends it, at the end of the journal.
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
    OpenedEnd file(journal_);
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
    const OpName name{is_known ? 0 : ++next_id, std::string(op.op_type), std::string(op.full_name)};
    record.kind = op.is_parameter ? RecordKind::parameter : RecordKind::op;
    record.sequence = op.sequence;
    record.step = step.id;
    record.op = &name;
    record.timestamp_us = op.timestamp_us;
    std::vector<const CatalogTensor*> entered;
    for (const CatalogTensor& tensor : op.tensors) {
      if (!is_missing(tensor)) continue;
      const Result<TensorFile> file = TensorFile::open(rank_.directory / tensor.file, wish_of(tensor));
      if (!file) {
        done_.notes.push_back(file.error().message);
        continue;
      }
      TensorRecord& slot = record.tensors.emplace_back();
      slot.is_input = tensor.is_input;
      slot.slot = tensor.slot;
      slot.dtype = tensor.dtype != DType::undefined ? tensor.dtype : file->dtype();
      slot.shape = Dims(file->shape());
      slot.timestamp_us = tensor.timestamp_us;
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
  Fd owner_;  // locked
};

}  // namespace

Result<Completion> complete_dump(const fs::path& dump, std::optional<std::uint32_t> rank) {
  const Result<Catalog> catalog = open_catalog(dump);
  if (!catalog) return catalog.error();
  Completion done;
  for (const CatalogRank& one : catalog->ranks) {
    if (rank && one.rank != *rank) continue;
    std::error_code error;
    const bool never_began = one.runs.empty() && fs::file_size(journal_in(one.metadata), error) == 0;
    if (!one.has_journal || (one.runs.empty() && !never_began)) {
      done.notes.push_back("'" + one.directory.string() + "' has no journal that can be read: nothing is made again");
      continue;
    }
    if (Status status = RankCompleter(one, done).complete(); !status) return status.error();
  }
  return done;
}

}  // namespace sonde
