// NanWatch: the first NaN of a run that goes on, and how it ends, from the entries that its journals get. The tables of a
// large dump need longer than the two seconds in which a NaN should be known (served_dump.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "contract/served_answers.h"
#include "dump/journal/journal_tail.h"
#include "read/catalog/catalog.h"

namespace sonde::server {

// Of a run that nobody records any more.
LastEnd end_of_run(bool has_ended, bool has_failed);

class NanWatch {
 public:
  // `chunk_bytes`: how much of a journal is read at once, if no entry is longer.
  explicit NanWatch(std::size_t chunk_bytes = std::size_t{4} << 20) : chunk_bytes_(chunk_bytes) {}

  // Reads what the journals of these ranks got since the last call. The first record of the last run, in the order of
  // execution, whose statistics count a NaN; the same from then on. A journal that cannot be read is left out. `dump` is 0.
  const std::optional<FirstNan>& look(const Catalog& frame);

  // How the last runs of those journals ended, once nobody records any more.
  LastEnd end() const;

 private:
  struct Tail {
    explicit Tail(const CatalogRank& rank, std::size_t chunk_bytes);
    JournalTail journal;
    std::unordered_map<std::uint32_t, std::string> names;  // of ops, by id
    std::optional<FirstNan> found;
    bool has_ended = false, has_failed = false;  // the last run

    void begin();  // a run
  };
  static void take(const JournalRun& run, const CatalogRank& rank, Tail& tail);

  std::size_t chunk_bytes_;
  std::map<std::filesystem::path, Tail> tails_;
  std::optional<FirstNan> found_;
};

}  // namespace sonde::server
