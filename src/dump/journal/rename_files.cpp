#include "dump/journal/rename_files.h"

#include <xxhash.h>

#include "dump/formats/little_endian.h"
#include "dump/journal/entry_fields.h"
#include "dump/journal/journal.h"
#include "dump/journal/journal_format.h"

namespace sonde {

using namespace journal_format;

std::string rename_files(std::string_view journal, const std::function<std::string(const std::string& file)>& rename) {
  std::string out;
  out.reserve(journal.size());
  constexpr std::size_t kTypeAt = 8;
  while (!journal.empty()) {
    std::size_t bytes = 1;  // damage: it is looked through byte by byte
    if (journal.starts_with(kMagic) && journal.size() >= kHeaderBytes) {
      bytes = kHeaderBytes;
    } else if (journal.size() >= kEntryBytes && little<std::uint32_t>(journal, 4) <= journal.size() - kEntryBytes) {
      const std::size_t length = kEntryBytes + little<std::uint32_t>(journal, 4);
      const std::string_view checked = journal.substr(4, length - 4);
      const auto checksum = XXH32(checked.data(), checked.size(), 0);
      if (checksum == little<std::uint32_t>(journal, 0)) bytes = length;
    }
    const std::string_view entry = journal.substr(0, bytes);
    journal.remove_prefix(bytes);
    if (bytes > kEntryBytes && !entry.starts_with(kMagic) && entry[kTypeAt] == static_cast<char>(Entry::file)) {
      Fields fields(entry.substr(kEntryBytes));
      const JournalFile file = take_file(fields);
      const std::string renamed = rename(file.file);
      if (fields.good() && renamed != file.file) {
        JournalWriter writer;
        writer.file(file.sequence, file.is_input, file.slot, renamed);
        out += writer.buffer();
        continue;
      }
    }
    out += entry;
  }
  return out;
}

}  // namespace sonde
