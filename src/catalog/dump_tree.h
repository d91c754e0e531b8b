// What the names of directories tell: whose a directory is, and which step's, in every layout (docs/format.md, "Trees").
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog_readers.h"
#include "journal/record.h"

namespace sonde {

// Directories .dump_metadata of runs that left a journal, each of one rank whose own directory is `directory`. In `o2`
// several ranks share it.
std::vector<std::filesystem::path> journals_of(const std::filesystem::path& directory);
inline std::filesystem::path journal_in(const std::filesystem::path& metadata) {
  return metadata / "sonde" / "journal";
}

// The number of `rank_3`, `worldsize8_global_rank3` or `device_3`; false for other names.
bool rank_number(const std::string& name, std::uint32_t& rank);
// YYYYMMDDhhmmss
bool is_time(const std::string& name);

// The dump that a rank's directory belongs to, and what tells the rank from others in it whatever the time of the run.
struct RankOf {
  std::filesystem::path dump;
  std::string rank;
  std::filesystem::path run;  // the directory of that time; empty in layouts without one
};
RankOf rank_of(const std::filesystem::path& rank_directory);

// What part of a rank lies below `inside`, a path relative to its directory.
CatalogFilter filter_of(const std::filesystem::path& rank_directory, const std::filesystem::path& inside);

// Whether a file makes its directory that of a step: by its name, and where that is not certain, by its first bytes.
bool is_of_a_step(const std::filesystem::path& path, const std::string& name);
// Whether a file begins like a tensor of ATB, and like a container of CANN. Never waits.
bool is_atb_file(const std::filesystem::path& path);
bool is_container_file(const std::filesystem::path& path);

// Fails when a symbolic link leads nowhere, or out of `root`.
Status check_link(const std::filesystem::path& link, const std::filesystem::path& root);

// A directory with a dump.json of msprobe: `root`/stepN/rankN, as far as its names say so.
struct MsprobePlace {
  std::filesystem::path directory, root;
  std::uint32_t rank = 0;
  std::uint64_t process = 0;  // of `proc{pid}`; 0: the name says the rank, or nothing
  std::uint64_t step = 0;

  bool has(const char* name) const;
};
MsprobePlace msprobe_place_of(const std::filesystem::path& directory);

// A directory with tensors in files of free names: what of its path says rank and step, and what belongs to their names.
struct LoosePlace {
  std::filesystem::path directory;
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  std::string prefix;  // `layer1/`, or empty
};
LoosePlace loose_place_of(const std::filesystem::path& directory, const std::filesystem::path& given);

// A directory with tensors or tables, by names alone; `given` is where the search began.
struct StepPlace {
  std::filesystem::path directory;
  std::filesystem::path rank_directory;
  std::filesystem::path metadata;
  std::uint32_t rank = 0;
  StepId step;
};
StepPlace place_of(const std::filesystem::path& directory, const std::filesystem::path& given);

}  // namespace sonde
