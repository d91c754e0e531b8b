#include "ask/compare/name_map.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "ground/base/json.h"
#include "ground/base/text.h"
#include "ground/files/mapped_file.h"

namespace sonde {
namespace {

constexpr std::uint64_t kLongest = 64 << 20;  // bytes

Error bad(const std::string& path, const std::string& why) {
  return Error{ErrorCode::invalid_argument, fmt::format("cannot read mapping '{}': {}", path, why)};
}

std::string without_quotes(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\"");
  const std::size_t end = text.find_last_not_of(" \t\r\"");
  return std::string(begin == std::string::npos ? std::string_view() : text.substr(begin, end - begin + 1));
}

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (const std::string_view cell : split(line, ',')) cells.push_back(without_quotes(cell));
  return cells;
}

// {"target name": "golden name", …}, or a list of {"target": …, "golden": …}.
Result<NameMap> read_json(const std::string& path, const std::string& text) {
  if (is_nested_too_deeply(text)) return bad(path, fmt::format("it is nested deeper than {} levels", kJsonDepth));
  const Json json = json_of_text_with_comments(text);
  NameMap names;
  if (json.is_object()) {
    for (const auto& [target, golden] : json.items()) {
      if (!golden.is_string()) return bad(path, fmt::format("'{}' belongs to no text; expected a golden name", target));
      names.ops[target] = golden.get<std::string>();
    }
    return names;
  }
  if (!json.is_array()) return bad(path, R"(it is not JSON; expected {"target name": "golden name"})");
  for (const Json& entry : json) {
    if (!entry.is_object() || !entry.contains("target") || !entry.contains("golden") || !entry["target"].is_string() ||
        !entry["golden"].is_string()) {
      return bad(path, R"(an entry is not {"target": "…", "golden": "…"})");
    }
    names.ops[entry["target"].get<std::string>()] = entry["golden"].get<std::string>();
  }
  return names;
}

// `target,golden`; or a table of msaccucmp with the columns NPUDump and GroundTruth, at any position.
Result<NameMap> read_csv(const std::string& path, const std::string& text) {
  NameMap names;
  std::size_t target = 0, golden = 1, number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (without_quotes(line).empty() || line[0] == '#') continue;
    const std::vector<std::string> cells = cells_of(line);
    const auto column = [&](std::string_view title) {
      return static_cast<std::size_t>(std::ranges::find(cells, title) - cells.begin());
    };
    if (number == 1 && column("NPUDump") < cells.size() && column("GroundTruth") < cells.size()) {
      target = column("NPUDump");
      golden = column("GroundTruth");
      continue;
    }
    if (number == 1 && cells.size() >= 2 && cells[0] == "target" && cells[1] == "golden") continue;
    if (cells.size() <= std::max(target, golden)) {
      return bad(path, fmt::format("line {} has {} columns; expected target,golden", number, cells.size()));
    }
    if (cells[target].empty() || cells[golden].empty() || cells[golden] == "*" || cells[golden] == "NaN") continue;
    names.ops[cells[target]] = cells[golden];
  }
  return names;
}

std::string without_yaml_quotes(const std::string& text) {
  const std::string bare = without_quotes(text);
  const bool quoted = bare.size() > 1 && bare.front() == '\'' && bare.back() == '\'';
  return quoted ? bare.substr(1, bare.size() - 2) : bare;
}

// A key and a value of YAML, without quotes and comments; empty where it is none.
std::pair<std::string, std::string> yaml_pair(const std::string& line) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string::npos) return {};
  std::string value = line.substr(colon + 2);
  if (const std::size_t comment = value.find(" #"); comment != std::string::npos) value.resize(comment);
  return {without_yaml_quotes(line.substr(0, colon)), without_yaml_quotes(value)};
}

// The operator of a row of msprobe: `Functional.conv2d.0.forward` of `Functional.conv2d.0.forward.input.0`.
std::string op_of_row(const std::string& row) {
  for (const std::string_view direction : {".forward", ".backward"}) {
    const std::size_t at = row.find(direction);
    if (at == std::string::npos) continue;
    for (const std::string_view side : {".input", ".output", ".parameters", ".args", ".kwargs"}) {
      const std::size_t end = row.find(side, at);
      if (end != std::string::npos) return row.substr(0, end);
    }
  }
  return row;
}

// YAML of msprobe: its mapping of data (-dm), `target row: golden row`, and that of layers (-lm), sections of a class
// with `target layer: golden layer`. Those of APIs and cells name no operators of a dump.
class YamlMapping {
 public:
  explicit YamlMapping(const std::string& path) : path_(path) {}

  Result<NameMap> read(const std::string& text) {
    for (const std::string_view line : split(text, '\n')) {
      ++number_;
      const std::string bare = without_quotes(line);
      if (bare.empty() || bare[0] == '#' || bare == "---") continue;
      if (const Status taken = take(std::string(line), bare); !taken) return taken.error();
    }
    return std::move(names_);
  }

 private:
  Status take(const std::string& line, const std::string& bare) {
    const auto [target, golden] = yaml_pair(line);
    const bool is_inside = line[0] == ' ' || line[0] == '\t', is_pair = !target.empty() && !golden.empty();
    if (bare[0] == '-') return wrong(bare, kAccepted);
    if (is_inside) {
      if (section_ == nullptr) return wrong(bare, kAccepted);
      if (!is_pair) return wrong(bare, "expected `target layer: golden layer` below a class of modules");
      // "new(2)": what is in brackets is msprobe's own.
      (*section_)[target] = golden.substr(0, golden.find('('));
      return {};
    }
    if (const std::string name = section_name(line); !name.empty()) {
      if (!names_.ops.empty())
        return wrong(bare, "expected `target operator: golden operator`, as in the lines before");
      // Older versions call the whole so.
      section_ = &names_.layers[name == "Cell" ? std::string(kTopLayer) : name];
      return {};
    }
    if (!is_pair) return wrong(bare, kAccepted);
    if (section_ != nullptr) return wrong(bare, "expected a class of modules and `:`, as in the lines before");
    names_.ops[op_of_row(target)] = op_of_row(golden);
    return {};
  }

  // "ParallelAttention:"; empty: the line has a value, or no name.
  static std::string section_name(std::string line) {
    if (const std::size_t comment = line.find(" #"); comment != std::string::npos) line.resize(comment);
    if (line.ends_with(": {}")) line.resize(line.size() - 3);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
    return line.ends_with(':') ? without_yaml_quotes(line.substr(0, line.size() - 1)) : std::string();
  }

  Error wrong(const std::string& bare, std::string_view expected) const {
    constexpr std::size_t kMost = 60;
    return bad(path_, fmt::format("line {}: found '{}', {}", number_, bare.substr(0, kMost), expected));
  }

  static constexpr std::string_view kAccepted =
      "expected lines `target operator: golden operator`, as in msprobe's mapping of data (-dm), or classes with lines "
      "`target layer: golden layer` below, as in its mapping of layers (-lm); its mappings of APIs and cells name no "
      "operators of a dump";

  const std::string& path_;
  std::size_t number_ = 0;
  NameMap names_;
  std::map<std::string, std::string, std::less<>>* section_ = nullptr;
};

}  // namespace

Result<NameMap> read_mapping(const std::string& path) {
  const Result<std::string> content = read_whole_file(path, kLongest);
  if (!content) return content.error();
  const std::size_t begin = content->find_first_not_of(" \t\r\n");
  const bool is_json = begin != std::string::npos && ((*content)[begin] == '{' || (*content)[begin] == '[');
  if (path.ends_with(".yaml") || path.ends_with(".yml")) return YamlMapping(path).read(*content);
  return is_json ? read_json(path, *content) : read_csv(path, *content);
}

}  // namespace sonde
