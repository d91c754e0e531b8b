// --engine: the ranks of a dump are worked on first, side by side; then the verb joins what that gave.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "read/catalog/rank_part_files.h"
#include "read/index/rank_indices.h"
#include "sonde/result.h"

namespace sonde {

// Indexes the ranks whose index is missing or out of date, which the verb then reads as one catalog. Where that is not
// possible the verb reads the dump itself, after a line on stderr. Nothing happens without an engine. Returns these ranks;
// empty, with the exit status set: the verb must end.
std::optional<std::vector<RankToIndex>> index_ranks(const std::filesystem::path& dump, const std::string& engine,
                                                    int& exit_status);

// Works on each of the named ranks of a dump; the exit status.
int work_in_directories(const std::filesystem::path& dump, const std::vector<std::string>& directories,
                        const std::function<Status(const RanksOfDump&, const RankInDump&)>& work);
// A line for each; the exit status.
int print_directories(const Result<std::vector<std::string>>& directories);

// A verb of this program that works on single ranks: `VERB… DUMP --dir RANK… --out DIRECTORY`.
struct RankWork {
  std::vector<std::string> verb;   // with its options
  std::vector<std::string> ranks;  // their directories in the dump
  std::filesystem::path out;       // absolute
  std::string doing;               // "verifying rank", for people
};

// Does it. What could not be done is missing in `out`, after a line on stderr. False, with the exit status set: the verb must end.
bool work_on_ranks(const std::filesystem::path& dump, const std::string& engine, const RankWork& work,
                   int& exit_status);

}  // namespace sonde
