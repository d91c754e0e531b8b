// Finds the contents of directories and files by names and first bytes. For our own layouts: layout/tree_places.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "dump/layout/tree_places.h"
#include "sonde/result.h"

namespace sonde {

// The directories .dump_metadata of runs with a journal, each of one rank whose own directory is `directory`. In `o2`
// several ranks share it.
std::vector<std::filesystem::path> journals_of(const std::filesystem::path& directory);
// True if a file makes its directory that of a step: by its name or, if that is not certain, by its first bytes.
bool is_of_a_step(const std::filesystem::path& path, const std::string& name);
// True if a file begins like a tensor of ATB, or like a container of CANN. Never waits.
bool is_atb_file(const std::filesystem::path& path);
bool is_container_file(const std::filesystem::path& path);

// Fails if a symbolic link leads nowhere, or out of `root`.
Status check_link(const std::filesystem::path& link, const std::filesystem::path& root);

// A directory with a dump.json of msprobe: `root`/stepN/rankN, as far as the names show.
struct MsprobePlace {
  std::filesystem::path directory, root;
  std::uint32_t rank = 0;
  std::uint64_t process = 0;  // from `proc{pid}`; 0: the name gives the rank, or nothing
  std::uint64_t step = 0;

  bool has(const char* name) const;
};
MsprobePlace msprobe_place_of(const std::filesystem::path& directory);

// A directory with tensor files under free names: the rank and step in its path, and the prefix of their names.
struct LoosePlace {
  std::filesystem::path directory;
  std::uint32_t rank = 0;
  std::uint64_t step = 0;
  std::string prefix;  // `layer1/`, or empty
};
LoosePlace loose_place_of(const std::filesystem::path& directory, const std::filesystem::path& given);

}  // namespace sonde
