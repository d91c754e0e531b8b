#include "read/catalog/name_mapping.h"

#include "ground/base/text.h"
#include "ground/files/mapped_file.h"

namespace sonde {

NameMapping parse_name_mapping(std::string_view csv) {
  NameMapping out;
  std::size_t number = 0;
  for (std::string_view line : split(csv, '\n')) {
    ++number;
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::size_t comma = line.find(',');
    const bool is_name = comma != std::string_view::npos && comma > 0 && comma + 1 < line.size() &&
                         line.find('/') == std::string_view::npos && line.find('\0') == std::string_view::npos;
    if (is_name) {
      out.names[std::string(line.substr(0, comma))] = line.substr(comma + 1);
    } else if (out.problem.empty()) {
      out.problem =
          "line " + std::to_string(number) + " is not 'number,name' of a file in this directory; it is ignored";
    }
  }
  return out;
}

NameMapping read_name_mapping(const std::filesystem::path& directory) {
  const Result<std::string> text = read_whole_file(directory / "mapping.csv");
  if (text) return parse_name_mapping(*text);
  NameMapping none;
  if (text.error().code != ErrorCode::not_found) none.problem = text.error().message;
  return none;
}

}  // namespace sonde
