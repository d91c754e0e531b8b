#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dump/formats/little_endian.h"
#include "dump/journal/entry_fields.h"
#include "dump/journal/journal.h"
#include "dump/journal/journal_format.h"
#include "dump/journal/run_json.h"
#include "ground/files/brought_files.h"

namespace sonde {
namespace {

using namespace journal_format;

// One run while it is read. Files are joined to their slots at the end, since a file may be
// complete before or after the record that owns it was appended.
struct OpenRun {
  JournalRun run;
  std::vector<JournalFile> files;
  std::unordered_set<std::uint64_t> ids;  // of sites and of names that are defined
  bool any = false;                       // an entry was seen
  bool is_damaged = false;                // a part of it was lost
};

using BySequence = std::unordered_map<std::uint64_t, std::size_t>;

// A completion joins its op. If the op itself was lost, the completion replaces it.
void join_completions(std::vector<JournalRecord>& records) {
  BySequence ops;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].completes) ops.emplace(records[i].sequence, i);
  }
  const auto has_op = [&](const JournalRecord& record) { return record.completes && ops.contains(record.sequence); };
  for (JournalRecord& record : records) {
    if (!has_op(record)) continue;
    JournalRecord& op = records[ops.at(record.sequence)];
    op.failed = op.failed || record.failed;
    std::ranges::move(record.tensors, std::back_inserter(op.tensors));
  }
  std::erase_if(records, has_op);
}

void join_files(OpenRun& open) {
  BySequence by_sequence;
  by_sequence.reserve(open.run.records.size());
  for (std::size_t i = 0; i < open.run.records.size(); ++i) {
    by_sequence.emplace(open.run.records[i].sequence, i);
  }
  const auto slot_of = [&](const JournalFile& entry) -> JournalTensor* {
    const auto found = by_sequence.find(entry.sequence);
    if (found == by_sequence.end()) return nullptr;
    std::vector<JournalTensor>& tensors = open.run.records[found->second].tensors;
    const auto slot = std::ranges::find_if(tensors, [&](const JournalTensor& tensor) {
      return tensor.is_input == entry.is_input && tensor.slot == entry.slot;
    });
    return slot != tensors.end() ? &*slot : nullptr;
  };
  for (JournalFile& entry : open.files) {
    if (JournalTensor* slot = slot_of(entry)) {
      slot->file = std::move(entry.file);
    } else {
      open.run.lone_files.push_back(std::move(entry));
    }
  }
}

bool is_known(std::uint8_t type) {
  return type >= static_cast<std::uint8_t>(Entry::run) && type <= static_cast<std::uint8_t>(Entry::attributes);
}

// Whether bytes after damage may be an entry of this type: a cheap first check.
bool may_begin(Entry type, std::uint32_t payload, std::string_view start) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(start[i]); };
  switch (type) {
    case Entry::run:
    case Entry::end:
      return payload <= kLongestFoundDefinition && payload >= 2 && byte(0) == '{';
    case Entry::record:
      return payload <= kLongestFoundRecord && payload >= 2 && byte(0) <= static_cast<std::uint8_t>(RecordKind::note) &&
             byte(1) <= (kFailed | kCompletes);
    default:
      return payload <= kLongestFoundDefinition;
  }
}

class Reader {
 public:
  Reader(std::string_view bytes, JournalVisitor* visitor)
      : bytes_(bytes), checksum_budget_(kLeastBudget + 16 * bytes.size()), visitor_(visitor) {}

  Result<Journal> read(const std::filesystem::path& file) {
    while (at_ < bytes_.size()) {
      if (is_header()) {
        const std::uint32_t version = little<std::uint32_t>(bytes_, at_ + kMagic.size());
        if (version != kVersion) {
          return Error{ErrorCode::unsupported,
                       "cannot read journal '" + file.string() + "': version " + std::to_string(version) + " at byte " +
                           std::to_string(at_) +
                           "; this build reads version 1; read it with the Sonde that wrote it, or a newer one"};
        }
        close_run();
        any_ = true;
        at_ += kHeaderBytes;
      } else if (!take_entry()) {
        skip_damage();
      }
    }
    close_run();
    join_supplements();
    return std::move(journal_);
  }

  bool found_any() const { return any_; }

 private:
  static constexpr std::uint64_t kLeastBudget = 64 << 20;

  bool is_header() const {
    return bytes_.size() - at_ >= kHeaderBytes && bytes_.substr(at_, kMagic.size()) == kMagic &&
           XXH32(bytes_.data() + at_, kHeaderBytes - 4, 0) == little<std::uint32_t>(bytes_, at_ + kHeaderBytes - 4);
  }

  // The length of the complete entry that starts here; 0 if there is none.
  std::size_t entry_bytes() const {
    if (bytes_.size() - at_ < kEntryBytes) return 0;
    const std::uint32_t payload = little<std::uint32_t>(bytes_, at_ + 4);
    if (payload > kLongestPayload || payload > bytes_.size() - at_ - kEntryBytes) return 0;
    const std::size_t whole = kEntryBytes + payload;
    return XXH32(bytes_.data() + at_ + 4, whole - 4, 0) == little<std::uint32_t>(bytes_, at_) ? whole : 0;
  }

  // False if no complete entry starts here.
  bool take_entry() {
    const std::size_t whole = entry_bytes();
    if (whole == 0) return false;
    any_ = true;
    take_payload(static_cast<std::uint8_t>(bytes_[at_ + 8]), bytes_.substr(at_ + kEntryBytes, whole - kEntryBytes));
    at_ += whole;
    return true;
  }

  // If the header between two runs is lost, the entries show the boundary: a run has one entry of type `run`, its
  // first; no entry follows its end; and its ids are defined once.
  void divide_runs(Entry type, std::uint64_t id) {
    const bool is_definition = type == Entry::site || type == Entry::op_name;
    const std::uint64_t key = id * 2 + (type == Entry::site ? 1 : 0);
    const bool is_next = type == Entry::run ? open_.any : !open_.run.end_json.empty();
    const bool is_again = is_definition && open_.is_damaged && open_.ids.contains(key);
    if (is_next || is_again) close_run();
    if (!open_.any) open_.run.offset = at_;
    if (!open_.any && visitor_ != nullptr) visitor_->begin_run();
    open_.any = true;
    if (is_definition) open_.ids.insert(key);
  }

  void take_payload(std::uint8_t type, std::string_view payload) {
    if (!is_known(type)) return;  // written by a later version
    Fields fields(payload);
    std::uint64_t id = 0;
    if (type == static_cast<std::uint8_t>(Entry::site) || type == static_cast<std::uint8_t>(Entry::op_name)) {
      id = Fields(payload).varint();
    }
    divide_runs(static_cast<Entry>(type), id);
    JournalRun& run = open_.run;
    switch (static_cast<Entry>(type)) {
      case Entry::run:
        run.header_json = std::string(payload);
        break;
      case Entry::site:
        if (Site site = take_site(fields); fields.good()) run.sites.push_back(std::move(site));
        break;
      case Entry::op_name:
        if (OpName name = take_op_name(fields); fields.good()) {
          run.op_names.push_back(std::move(name));
        }
        break;
      case Entry::record:
        if (JournalRecord record = take_record(fields); fields.good()) {
          run.records.push_back(std::move(record));
        }
        break;
      case Entry::file:
        if (JournalFile entry = take_file(fields); fields.good()) {
          open_.files.push_back(std::move(entry));
        }
        break;
      case Entry::attributes:
        if (Attributes attributes = take_attributes(fields); fields.good()) {
          run.attributes.push_back(std::move(attributes));
        }
        break;
      case Entry::end:
        run.end_json = std::string(payload);
        break;
    }
    if (!fields.good()) {
      ++journal_.malformed_entries;
    } else if (visitor_ != nullptr) {
      show(static_cast<Entry>(type), run);
    }
  }

  // The entry that was just taken.
  void show(Entry type, const JournalRun& run) {
    switch (type) {
      case Entry::run:
        return visitor_->header(run.header_json);
      case Entry::site:
        return visitor_->site(run.sites.back());
      case Entry::op_name:
        return visitor_->op_name(run.op_names.back());
      case Entry::attributes:
        return visitor_->attributes(run.attributes.back());
      case Entry::record:
        return visitor_->record(run.records.back());
      case Entry::end:
        return visitor_->end(run.end_json);
      case Entry::file:
        return;
    }
  }

  // After damage: whether a complete entry that is worth computing a checksum starts here.
  bool is_found_entry() {
    if (bytes_.size() - at_ < kEntryBytes) return false;
    const auto type = static_cast<std::uint8_t>(bytes_[at_ + 8]);
    const std::uint32_t payload = little<std::uint32_t>(bytes_, at_ + 4);
    if (!is_known(type) || payload > bytes_.size() - at_ - kEntryBytes || payload > checksum_budget_) return false;
    if (!may_begin(static_cast<Entry>(type), payload, bytes_.substr(at_ + kEntryBytes, payload))) return false;
    checksum_budget_ -= payload;
    return entry_bytes() != 0;
  }

  // Whether an entry or a header begins at `start` and breaks off at at_, as a killed writer leaves it.
  bool is_tail(std::size_t start) const {
    const std::string_view torn = bytes_.substr(start, at_ - start);
    if (at_ < bytes_.size() && bytes_.substr(at_, kMagic.size()) != kMagic) return false;
    if (torn.size() < kHeaderBytes && kMagic.starts_with(torn.substr(0, kMagic.size()))) return true;
    if (torn.size() < kEntryBytes) return true;
    const std::uint32_t payload = little<std::uint32_t>(torn, 4);
    return is_known(static_cast<std::uint8_t>(torn[8])) && payload <= kLongestPayload &&
           payload > torn.size() - kEntryBytes;
  }

  // The incomplete end of a killed writer, or damage: everything up to the next complete entry, or header, is lost.
  void skip_damage() {
    const std::size_t start = at_;
    do {
      ++at_;
    } while (at_ < bytes_.size() && !(bytes_[at_] == kMagic[0] && is_header()) && !is_found_entry());
    journal_.torn_bytes += at_ - start;
    journal_.gaps.push_back({start, at_ - start, is_tail(start)});
    open_.is_damaged = true;
  }

  // A run whose header contains {"mends": k} has the entries that run k could not write any more.
  void join_supplements() {
    std::vector<JournalRun> runs;
    std::vector<std::size_t> own;  // the runs that mend nothing; `k` counts these
    for (JournalRun& run : journal_.runs) {
      const std::optional<std::size_t> mended = mended_by(run);
      if (mended && *mended < own.size()) {
        join_supplement(run, runs[own[*mended]]);
        continue;
      }
      if (!mended) own.push_back(runs.size());
      runs.push_back(std::move(run));
    }
    journal_.runs = std::move(runs);
  }

  static std::optional<std::size_t> mended_by(const JournalRun& run) {
    const std::optional<RunHeader> header = parse_run_json(run.header_json);
    return header ? header->mends : std::nullopt;
  }

  static void join_supplement(JournalRun& supplement, JournalRun& run) {
    for (JournalRecord& record : supplement.records) record.is_supplement = true;
    OpenRun joined;
    joined.run = std::move(run);
    std::ranges::move(supplement.op_names, std::back_inserter(joined.run.op_names));
    std::ranges::move(supplement.records, std::back_inserter(joined.run.records));
    joined.files = std::exchange(joined.run.lone_files, {});
    std::ranges::move(supplement.lone_files, std::back_inserter(joined.files));
    join_files(joined);
    run = std::move(joined.run);
  }

  void close_run() {
    if (open_.any) {
      join_completions(open_.run.records);
      join_files(open_);
      journal_.runs.push_back(std::move(open_.run));
    }
    open_ = {};
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::uint64_t checksum_budget_;
  JournalVisitor* visitor_;
  bool any_ = false;
  OpenRun open_;
  Journal journal_;
};

Error journal_error(const std::filesystem::path& file, ErrorCode code, const std::string& why) {
  return Error{code, "cannot read journal '" + file.string() + "': " + why};
}

// Only the present bytes: a live run may append while they are read.
Result<std::string> read_whole(const std::filesystem::path& file) {
  if (Status brought = bring_file(file); !brought) return journal_error(file, ErrorCode::io, brought.error().message);
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return journal_error(file, errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, std::strerror(errno));
  }
  struct stat status {};
  std::string bytes;
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    return journal_error(file, ErrorCode::io, "not a regular file");
  }
  std::size_t size = 0;
  bytes.resize(static_cast<std::size_t>(status.st_size));
  while (size < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int reason = errno;
      ::close(fd);
      return journal_error(file, ErrorCode::io, std::strerror(reason));
    }
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  ::close(fd);
  bytes.resize(size);
  return bytes;
}

}  // namespace

Result<Journal> parse_journal(std::string_view bytes, const std::filesystem::path& file, JournalVisitor* visitor) {
  Reader reader(bytes, visitor);
  Result<Journal> journal = reader.read(file);
  const std::size_t known = std::min(bytes.size(), kMagic.size());
  if (journal && !reader.found_any() && bytes.substr(0, known) != kMagic.substr(0, known)) {
    return journal_error(file, ErrorCode::corrupt,
                         "it does not start with the eight bytes 89 53 4f 4e 44 45 4a 0a, and holds no whole entry");
  }
  return journal;
}

Result<Journal> read_journal(const std::filesystem::path& file, JournalVisitor* visitor) {
  try {
    const Result<std::string> bytes = read_whole(file);
    if (!bytes) return bytes.error();
    return parse_journal(*bytes, file, visitor);
  } catch (const std::bad_alloc&) {
    return journal_error(file, ErrorCode::io, "not enough memory");
  } catch (const std::length_error&) {
    return journal_error(file, ErrorCode::io, "not enough memory");
  }
}

}  // namespace sonde
