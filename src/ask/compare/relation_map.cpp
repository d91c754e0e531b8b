#include "ask/compare/relation_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "ground/base/json.h"
#include "ground/contract/read_json.h"
#include "ground/files/mapped_file.h"
#include "plan/config/nearest.h"

namespace sonde {
namespace {

constexpr std::uint64_t kLargestMap = std::uint64_t{1} << 30;  // bytes

Error bad_map(const std::filesystem::path& path, const std::string& why) {
  return Error{ErrorCode::invalid_argument, fmt::format("cannot read map '{}': {}", path.string(), why)};
}

// "line 3, column 7"
std::string place_in(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line = before.rfind('\n');
  return fmt::format("line {}, column {}", std::ranges::count(before, '\n') + 1,
                     line == std::string_view::npos ? at + 1 : at - line);
}

// The first byte that is not JSON.
std::string what_is_not_json(std::string_view text) {
  const std::size_t at = where_not_json(text);
  const bool is_at_end = text.find_first_not_of(" \t\r\n", at) == std::string_view::npos;
  const std::string found = is_at_end ? "the end of the file" : fmt::format("'{}'", text.substr(at, 1));
  return fmt::format("{}: expected JSON as --save-map writes it, found {}", place_in(text, at), found);
}

// "tensors[3].axsi" is none of the members; the nearest one is named.
std::string what_is_unknown(const std::string& place) {
  std::vector<std::string_view> names;
  contract::add_names<RelationMap>(names);
  contract::add_names<MappedTensor>(names);
  contract::add_names<MapPart>(names);
  const std::string name = place.substr(place.rfind('.') + 1);
  return fmt::format("{}: expected a member that maps have, such as '{}', found '{}'", place,
                     nearest(name, names).front(), name);
}

}  // namespace

Result<RelationMap> read_relation_map(const std::filesystem::path& path) {
  const Result<std::string> text = read_whole_file(path, kLargestMap);
  if (!text) {
    return Error{text.error().code, text.error().message + ": expected a map that `sonde compare --save-map` wrote"};
  }
  if (is_nested_too_deeply(*text)) return bad_map(path, fmt::format("it is nested deeper than {} levels", kJsonDepth));
  const Json json = json_of_text(*text);
  if (json.is_discarded()) return bad_map(path, what_is_not_json(*text));
  // A map of another version has other members: it is named before them.
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (json.is_object() && version != json.end() && *version != kRelationMapVersion) {
    return bad_map(path,
                   fmt::format("version: expected {}, found {}: save the map again, or use the Sonde that wrote it",
                               kRelationMapVersion, text_of_json(*version)));
  }
  Result<Read<RelationMap>> read = read_json<RelationMap>(json);
  if (!read) {
    const std::string& mistake = read.error().message;
    return bad_map(path, mistake.starts_with(':') ? "the whole file" + mistake : mistake);
  }
  if (!read->unknown.empty()) return bad_map(path, what_is_unknown(read->unknown.front()));
  return std::move(read->answer);
}

std::string text_of_map(const RelationMap& map) {
  std::string text = fmt::format("{{\n  \"version\": {},\n  \"tensors\": [", map.version);
  for (const MappedTensor& tensor : map.tensors) {
    text += fmt::format("{}\n    {}", &tensor == map.tensors.data() ? "" : ",", text_of_json(json_of(tensor)));
  }
  return text + "\n  ]\n}\n";
}

}  // namespace sonde
