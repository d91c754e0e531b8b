// libFuzzer entry over parse_journal: clang++ -fsanitize=fuzzer,address … fuzz/parse_journal.cpp. ctest runs it over a
// small mutated corpus (tests/engine/journal/damaged_journal_test.cpp).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dump/journal/journal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const sonde::Result<sonde::Journal> journal = sonde::parse_journal(bytes, "journal");
  if (!journal) {
    if (journal.error().message.empty()) std::abort();
    return 0;
  }
  // Gaps lie in the file, in order, apart from each other, and the reader reports their sum.
  std::uint64_t end = 0, torn = 0;
  for (const sonde::JournalGap& gap : journal->gaps) {
    if (gap.bytes == 0 || gap.offset < end || gap.offset > size || gap.bytes > size - gap.offset) std::abort();
    end = gap.offset + gap.bytes;
    torn += gap.bytes;
  }
  if (torn != journal->torn_bytes) std::abort();
  for (const sonde::JournalRun& run : journal->runs) {
    if (run.offset > size) std::abort();
    for (const sonde::JournalRecord& record : run.records) {
      for (const sonde::JournalTensor& slot : record.tensors) {
        if (slot.file.size() > size || slot.skipped.size() > size) std::abort();
      }
    }
  }
  return 0;
}
