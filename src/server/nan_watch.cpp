#include "server/nan_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "files/files.h"
#include "journal/journal.h"
#include "layout/side_names.h"

namespace sonde::server {
namespace {

// Up to `most` bytes from `offset` on.
std::string read_from(int file, std::uint64_t offset, std::size_t most) {
  std::string bytes(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const ssize_t got = ::pread(file, bytes.data() + size, most - size, static_cast<off_t>(offset + size));
    if (got <= 0) break;  // what is missing is read at the next look
    size += static_cast<std::size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

// The bytes at the end that are the beginning of an entry.
std::size_t incomplete_end(const Journal& journal, std::size_t bytes) {
  if (journal.gaps.empty()) return 0;
  const JournalGap& last = journal.gaps.back();
  return last.is_tail && last.offset + last.bytes == bytes ? last.bytes : 0;
}

const JournalTensor* nan_of(const JournalRecord& record) {
  const auto found = std::ranges::find_if(record.tensors, [](const JournalTensor& tensor) {
    return tensor.has_statistics && tensor.statistics.nan_count > 0;
  });
  return found == record.tensors.end() ? nullptr : &*found;
}

}  // namespace

const std::optional<FirstNan>& NanWatch::look(const Catalog& frame) {
  for (const CatalogRank& rank : frame.ranks) {
    if (!rank.has_journal) continue;
    Tail& tail = tails_[rank.metadata];
    read(rank, tail);
    if (!found_) found_ = tail.found;
  }
  return found_;
}

void NanWatch::read(const CatalogRank& rank, Tail& tail) const {
  const Fd file(::open(journal_in(rank.metadata).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < tail.offset) tail = {};  // another file
  std::size_t most = chunk_bytes_;
  while (tail.offset < size) {
    const std::string bytes = read_from(file.get(), tail.offset, std::min<std::uint64_t>(most, size - tail.offset));
    const std::uint64_t before = tail.offset;
    take(bytes, rank, tail);
    if (tail.offset > before) continue;
    if (bytes.size() < most) return;  // the entry is being written
    most *= 2;
  }
}

void NanWatch::take(std::string_view bytes, const CatalogRank& rank, Tail& tail) {
  const Result<Journal> journal = parse_journal(bytes, rank.metadata);
  if (!journal) {  // no complete entry yet, or another version's
    if (journal.error().code != ErrorCode::corrupt) tail.offset = std::numeric_limits<std::int64_t>::max();
    return;
  }
  tail.offset += bytes.size() - incomplete_end(*journal, bytes.size());
  for (const JournalRun& run : journal->runs) {
    if (!run.header_json.empty()) {  // the next run
      tail.names.clear();
      tail.found.reset();
    }
    for (const sonde::OpName& name : run.op_names) tail.names[name.id] = name.op_name;
    if (tail.found) continue;
    const JournalRecord* first = nullptr;
    for (const JournalRecord& record : run.records) {
      if (nan_of(record) != nullptr && (first == nullptr || record.sequence < first->sequence)) first = &record;
    }
    if (first == nullptr) continue;
    const JournalTensor& tensor = *nan_of(*first);
    tail.found = {rank.rank, rank.dump, first->step, tail.names[first->op], tensor.is_input, tensor.slot};
  }
}

}  // namespace sonde::server
