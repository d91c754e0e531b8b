// --engine: the ranks of a dump are worked on first, side by side; then the verb joins what that gave.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sonde {

// Indexes the ranks whose index is missing or out of date, which the verb then reads as one catalog. Where that is not
// possible the verb reads the dump itself, after a line on stderr. False, with the exit status set: the verb must end.
// Nothing happens without an engine.
bool index_ranks(const std::filesystem::path& dump, const std::string& engine, int& exit_status);

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
