// GrowingRank: one rank of a run that goes on. Only what its journal got is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "dump/journal/journal_tail.h"
#include "read/catalog/catalog.h"
#include "read/catalog/run_steps.h"

namespace sonde {

// The number in the name of a rank's directory, which has priority over that in the journal: it may be a copy.
std::optional<std::uint32_t> rank_in_name(const std::filesystem::path& directory);

// The ranks of a dump that has journals and nothing else, without what is in them. No rank: it is another kind of dump.
Catalog journals_of_dump(const std::filesystem::path& path);

class GrowingRank {
 public:
  // `like`: of journals_of_dump.
  explicit GrowingRank(const CatalogRank& like);

  // Gets steps that are over, each once, in the order of the run; the rank has nothing else.
  using Take = std::function<void(const CatalogRank& steps)>;
  // False: the journal holds something for which it must be read as a whole: damage, several runs, late entries.
  bool read(const Take& take);
  // Adds the steps to which entries may still come.
  void add_open(CatalogRank& rank, TextPool& texts);

  const CatalogRank& frame() const { return frame_; }  // with its run, without steps
  bool has_finished() const { return !frame_.runs.empty() && frame_.runs.back().finished; }
  std::uint64_t offset() const { return tail_.offset(); }  // of what was read, of `size`
  std::uint64_t size() const { return tail_.size(); }

 private:
  using Key = std::pair<std::uint32_t, std::uint64_t>;
  bool take_entries(Journal& journal);
  bool take_run(JournalRun& run);
  bool join(JournalRun& run);
  JournalRecord* open_record(std::uint64_t sequence);
  bool close(const Take& take);

  CatalogRank frame_;
  JournalTail tail_;
  RunSteps steps_;
  std::vector<JournalRecord> open_;
  std::set<Key> closed_;
  bool is_good_ = true;
};

}  // namespace sonde
