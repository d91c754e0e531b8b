// mapping.csv: the real names of files with numbers as names, because the names were too long for the file system.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace sonde {

struct NameMapping {
  std::map<std::string, std::string> names;  // number (`123.npy`, of CANN `123`) to name
  std::string problem;                       // the first malformed line; empty if there is none
};

// Lines "{number}.npy,{name}.npy"; for CANN, "{number},{name}". A first line with column names is accepted.
// Names with a `/` do not belong to files in this directory.
NameMapping parse_name_mapping(std::string_view csv);

// The mapping of a directory; empty if there is none. Never waits, whatever kind of file it is.
NameMapping read_name_mapping(const std::filesystem::path& directory);

}  // namespace sonde
