// The readers of one rank of a dump: a journal, MindSpore's and CANN's files, msprobe's JSON, files with free names.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dump/layout/tree_places.h"
#include "read/catalog/catalog.h"

namespace sonde {

// The remains of a journal, for finding the missing entries (unentered_tensors.h).
struct JournalRemains {
  struct Run {
    std::uint64_t started_us = 0;
    std::vector<std::uint64_t> sequences;                       // of its records, sorted
    std::vector<std::pair<std::uint64_t, StepId>> begins;       // times of its steps, also of those not asked for
    std::unordered_map<std::string, std::uint64_t> lone_files;  // whose record is lost, with its sequence
  };
  bool is_incomplete = false;  // a run was killed or failed, or entries are damaged
  bool is_damaged = false;     // not only cut off
  std::size_t ops = 0;
  std::vector<Run> runs;
  std::unordered_set<std::string> files;                   // of its tensors
  std::vector<std::pair<std::string, std::string>> names;  // of ops: type, full name
};

// `rank.directory` must be set; `rank.rank` is set from the journal. Damage inside the journal becomes a problem of the
// catalog.
Status read_rank_journal(const std::filesystem::path& journal, const StepFilter& filter, CatalogRank& rank,
                         JournalRemains& remains, Catalog& catalog);

// `steps`: directories below `rank.directory` that hold tensor files or tables. Each of `constants` that lies beside
// some of them joins the first of those.
// A name in one form for file names, rows and order lines: versions differ in how they write `/`.
std::string comparable_name(std::string_view name);
void read_rank_tree(const std::vector<StepPlace>& steps, const std::vector<std::filesystem::path>& constants,
                    CatalogRank& rank, Catalog& catalog, const std::function<void()>& step_done = {});

// `places`: directories with a dump.json, all of one rank, below `rank.directory`.
struct MsprobePlace;
void read_msprobe_rank(const std::vector<MsprobePlace>& places, CatalogRank& rank, Catalog& catalog);

// `places`: directories with tensor files under free names, all of one rank, below `rank.directory`.
struct LoosePlace;
void read_loose_rank(const std::vector<LoosePlace>& places, CatalogRank& rank, Catalog& catalog);

// `directories`: of the summaries of one rank, by run.
void read_summary_rank(const std::vector<std::filesystem::path>& directories, CatalogRank& rank, Catalog& catalog);

}  // namespace sonde
