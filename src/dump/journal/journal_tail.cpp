#include "dump/journal/journal_tail.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>

#include "ground/files/files.h"

namespace sonde {
namespace {

// Removes the gap that is the beginning of an entry at the end; the size of it.
std::size_t take_incomplete_end(Journal& journal, std::size_t bytes) {
  if (journal.gaps.empty()) return 0;
  const JournalGap last = journal.gaps.back();
  if (!last.is_tail || last.offset + last.bytes != bytes) return 0;
  journal.gaps.pop_back();
  return last.bytes;
}

}  // namespace

JournalTail::Look JournalTail::read(const std::function<void(Journal&)>& take) {
  const Fd file(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return Look::missing;
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ < offset_) {
    offset_ = 0;
    return Look::anew;
  }
  std::size_t most = chunk_bytes_;
  while (offset_ < size_) {
    // Bytes that cannot be read yet are read at the next look.
    const std::string bytes = text_at(file.get(), offset_, std::min<std::uint64_t>(most, size_ - offset_));
    const std::uint64_t taken = take_from(bytes, take);
    offset_ += taken;
    if (taken > 0) continue;
    if (bytes.size() < most) break;  // the entry is being written
    most *= 2;
  }
  return Look::as_before;
}

std::uint64_t JournalTail::take_from(std::string_view bytes, const std::function<void(Journal&)>& take) const {
  Result<Journal> journal = parse_journal(bytes, file_);
  if (!journal) return 0;  // less than an entry, or not a journal
  const std::uint64_t whole = bytes.size() - take_incomplete_end(*journal, bytes.size());
  if (whole > 0) take(*journal);
  return whole;
}

}  // namespace sonde
