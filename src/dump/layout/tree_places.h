// The meaning of a path in a dump: the rank and step of a directory. Names alone decide, for every layout, and for
// dumps of other writers that differ slightly from the table (trees.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dump/journal/record.h"
#include "dump/layout/trees.h"

namespace sonde {

// The names of a relative path, without `.`.
std::vector<std::string> names_in(const std::filesystem::path& path);

// The dump that a rank's directory belongs to, and the part that distinguishes the rank from others in it, independent
// of the time of the run.
struct RankOf {
  std::filesystem::path dump;
  std::string rank;
  std::filesystem::path run;  // the directory of that time; empty in layouts without one
};
RankOf rank_of(const std::filesystem::path& rank_directory);

// The part of a rank to read; all of it if empty.
struct StepFilter {
  std::optional<std::uint32_t> graph;
  std::optional<std::uint64_t> number;

  bool takes(StepId step) const { return (!graph || *graph == step.graph) && (!number || *number == step.number); }
};
// The part of a rank below `inside`, a path relative to its directory.
StepFilter filter_of(const std::filesystem::path& rank_directory, const std::filesystem::path& inside);

// A directory with tensors or tables; `given` is where the search began.
struct StepPlace {
  std::filesystem::path directory;
  std::filesystem::path rank_directory;
  std::filesystem::path metadata;
  std::uint32_t rank = 0;
  StepId step;
};
StepPlace place_of(const std::filesystem::path& directory, const std::filesystem::path& given);

}  // namespace sonde
