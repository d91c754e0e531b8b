#include "script.h"

#include <torch/csrc/jit/runtime/interpreter.h>

#include <array>
#include <functional>
#include <string_view>

#include "data_sources.h"
#include "hash.h"

namespace sonde_torch {
namespace {

using torch::jit::SourceRange;
using torch::jit::StackEntry;

// "block(Block)::forward" -> "block", "Block".
struct Level {
  std::string_view attribute, type;
};

Level level_of(std::string_view entry) {
  const std::size_t opens = entry.find('('), closes = entry.find(')');
  if (opens == std::string_view::npos || closes == std::string_view::npos || closes < opens) return {entry, {}};
  return {entry.substr(0, opens), entry.substr(opens + 1, closes - opens - 1)};
}

// Containers that only hold modules: their level in a name is the attribute alone, as in python/sonde/module_names.py.
bool is_plain_container(std::string_view type) {
  constexpr std::array<std::string_view, 3> kPlain = {"Sequential", "ModuleList", "ModuleDict"};
  for (const std::string_view plain : kPlain) {
    if (type == plain) return true;
  }
  return false;
}

// The line of a module of PyTorch is not the user's.
bool is_of_torch(const std::string& file) { return file.find("/torch/nn/") != std::string::npos; }

// A saved module has code that was made from the user's source; the file names that source where it was kept.
SiteLine line_of(const StackEntry& entry) {
  SourceRange range = entry.range;
  if (range.source()) {
    const auto origin = range.source()->findSourceRangeThatGenerated(range);
    if (origin && origin->file_line_col() && !std::get<0>(*origin->file_line_col()).empty()) range = *origin;
  }
  SiteLine line;
  line.function = entry.filename;  // of the function, in spite of its name
  if (const auto place = range.file_line_col()) {
    line.file = std::get<0>(*place);
    line.line = static_cast<int>(std::get<1>(*place));
    line.column = static_cast<int>(std::get<2>(*place));
    const torch::jit::Source& source = *range.source();
    keep_text_of_data(line.file, static_cast<int>(source.lineno_to_source_lineno(0)), source.text_str().str());
  }
  return line;
}

}  // namespace

ScriptPlace script_place() {
  ScriptPlace place;
  const std::vector<StackEntry> stack = torch::jit::currentCallstack();
  if (stack.empty()) return place;
  place.modules = torch::jit::currentModuleHierarchy();
  std::uint64_t hash = 0x13198A2E03707344ULL;
  for (const StackEntry& entry : stack) {
    hash = mix(hash, reinterpret_cast<std::uint64_t>(entry.range.source().get()));
    hash = mix(hash, entry.range.start());
  }
  for (const std::string& module : place.modules) hash = mix(hash, std::hash<std::string>{}(module));
  place.hash = hash | 1;
  return place;
}

std::string script_scope(const ScriptPlace& place) {
  std::string scope;
  for (std::size_t i = 1; i < place.modules.size(); ++i) {
    const Level level = level_of(place.modules[i]);
    if (level.attribute == "SELF" || level.type.empty()) continue;  // a method of the same module, a function
    if (!scope.empty()) scope += '/';
    scope += level.attribute;
    if (!is_plain_container(level.type)) scope.append("-").append(level.type);
  }
  return scope;
}

std::string script_class(const ScriptPlace& place) {
  return place.modules.empty() ? "" : std::string(level_of(place.modules.front()).type);
}

std::vector<SiteLine> script_lines() {
  std::vector<SiteLine> lines, of_torch;
  for (const StackEntry& entry : torch::jit::currentCallstack()) {
    SiteLine line = line_of(entry);
    if (line.file.empty() || line.line <= 0) continue;
    std::vector<SiteLine>& list = lines.empty() && is_of_torch(line.file) ? of_torch : lines;
    list.push_back(std::move(line));
  }
  return lines.empty() ? of_torch : lines;
}

}  // namespace sonde_torch
