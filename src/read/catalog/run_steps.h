// RunSteps: turns the records of one run into steps of a catalog, all at once or as they come (growing_rank.h).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dump/journal/journal.h"
#include "dump/layout/tree_places.h"
#include "read/catalog/catalog.h"

namespace sonde {

// A run as the entries at its begin and at its end describe it. Without a readable header its fields are empty.
CatalogRun run_of(const JournalRun& journal, const std::filesystem::path& metadata);

// Paths in a journal must stay inside the rank's directory; others are not used.
bool stays_inside(const std::string& file);

class RunSteps {
 public:
  // `run`: its index in the rank.
  RunSteps(std::size_t run, const StepFilter& filter) : run_(run), filter_(filter) {}

  // The data that records refer to, before the first that does. Ops point to it: `kept` owns it.
  void define(JournalRun& journal);
  struct Kept {
    std::shared_ptr<const std::vector<Site>> sites;
    std::shared_ptr<const std::vector<Attributes>> attributes;
  };
  const std::deque<Kept>& kept() const { return kept_; }

  // Sorts the records, and adds their steps to the rank, whose run gets the notes. The records of a step come together.
  void add(std::vector<JournalRecord>& records, CatalogRank& rank, TextPool& texts);
  // The files of these records belong to equal tensors of later ones too: those that begin in the next few steps.
  void remember_files(const std::vector<JournalRecord>& records);

 private:
  // Equal tensors were read and written once; facts about one apply to all.
  struct Known {
    const JournalTensor* statistics = nullptr;
    const JournalTensor* file = nullptr;
  };
  struct KnownFile {
    std::string file;
    std::uint64_t last_step = 0;  // in which it was met, counted from the first
  };
  using Places = std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t>;

  void remember_contents(const std::vector<JournalRecord>& records);
  void add(const JournalRecord& record, CatalogRank& rank);
  CatalogStep& step_of(StepId id, CatalogRank& rank);
  CatalogOp op_of(const JournalRecord& record);
  CatalogTensor tensor_of(const JournalTensor& slot);
  void add_known(const JournalTensor& slot, CatalogTensor& tensor);

  std::size_t run_;
  StepFilter filter_;
  TextPool* texts_ = nullptr;  // while steps are added
  std::deque<Kept> kept_;
  std::deque<OpName> op_names_;
  std::unordered_map<std::uint32_t, const Site*> sites_;
  std::unordered_map<std::uint32_t, const Attributes*> attributes_;
  std::unordered_map<std::uint32_t, const OpName*> names_;
  std::unordered_map<std::uint64_t, Known> contents_;
  std::unordered_map<std::uint64_t, KnownFile> files_;
  std::uint64_t steps_remembered_ = 0;
  Places steps_;
};

}  // namespace sonde
