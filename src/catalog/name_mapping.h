// mapping.csv: the names of files whose own are numbers, since theirs were too long for the file system.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace sonde {

struct NameMapping {
  std::map<std::string, std::string> names;  // number (`123.npy`, of CANN `123`) to name
  std::string problem;                       // the first line that makes no sense; empty when all do
};

// Lines "{number}.npy,{name}.npy"; of CANN's, "{number},{name}". A first line that says what the columns are does no harm.
// Names that hold a `/` are none of files in this directory.
NameMapping parse_name_mapping(std::string_view csv);

// That of a directory; empty where there is none. Never waits, whatever stands there.
NameMapping read_name_mapping(const std::filesystem::path& directory);

}  // namespace sonde
