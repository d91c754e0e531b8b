// The names of the files that convert writes, and mapping.csv for too long names.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace sonde {

// UUID version 3 in the DNS name space, 32 hexadecimal digits.
std::string name_uuid(std::string_view name);

// `name`, or, from 255 bytes on, name_uuid(name) and `suffix`, which is then added to `directory`/mapping.csv.
std::string fitting_name(const std::filesystem::path& directory, const std::string& name, std::string_view suffix);

// The name in `directory`/mapping.csv for the file `name`, if it is a number; else `name`. For many files of a
// directory.
class LongNames {
 public:
  std::string of(const std::filesystem::path& file);

 private:
  std::map<std::filesystem::path, std::map<std::string, std::string>> by_directory_;
};

}  // namespace sonde
