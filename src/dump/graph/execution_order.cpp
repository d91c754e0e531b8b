#include "dump/graph/execution_order.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "ground/base/text.h"
#include "ground/files/mapped_file.h"

namespace sonde {
namespace {

constexpr std::uintmax_t kLongest = 64 << 20;  // bytes; a million operators

std::vector<std::string> lines_of(std::string_view csv) {
  std::vector<std::string> lines;
  take_field(csv, '\n');  // the head
  for (std::string_view line : split(csv, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.emplace_back(line);
  }
  return lines;
}

}  // namespace

bool split_number(std::string_view op_name, std::string_view& stem, std::uint64_t& number) {
  const std::size_t digits = op_name.find_last_not_of("0123456789") + 1;
  stem = op_name.substr(0, digits);
  const char* const end = op_name.data() + op_name.size();
  const auto [stopped, error] = std::from_chars(op_name.data() + digits, end, number);
  return error == std::errc() && stopped == end && stem.ends_with("-op");
}

Result<ExecutionOrderNames> ExecutionOrderNames::read(const std::filesystem::path& csv) {
  const Result<std::string> text = read_whole_file(csv, kLongest);
  if (!text) return text.error();
  return ExecutionOrderNames(*text);
}

ExecutionOrderNames::ExecutionOrderNames(std::string_view csv) : names_(lines_of(csv)) {
  std::map<std::string_view, std::vector<std::uint32_t>> members;
  for (std::uint32_t i = 0; i < names_.size(); ++i) {
    if (!known_.insert(names_[i]).second) continue;
    std::string_view stem;
    std::uint64_t number = 0;
    if (split_number(names_[i], stem, number)) members[stem].push_back(i);
  }
  for (const auto& [stem, of_stem] : members) add_group(stem, of_stem);
}

// Numbers begin at 0, so a number beyond the group belongs to a recreated operator; recreated operators come first.
void ExecutionOrderNames::add_group(std::string_view stem, const std::vector<std::uint32_t>& members) {
  Group& group = groups_[stem];
  group.candidates = members;
  const auto is_beyond = [&](std::uint32_t name) {
    std::string_view ignored;
    std::uint64_t number = 0;
    return split_number(names_[name], ignored, number) && number >= members.size();
  };
  // Not std::ranges: clang 14 cannot compile the subrange of GCC 12's library.
  const auto old = std::stable_partition(group.candidates.begin(), group.candidates.end(), is_beyond);
  group.made_anew = static_cast<std::size_t>(old - group.candidates.begin());
}

std::string_view ExecutionOrderNames::name_of(std::string_view op_name) {
  if (known_.contains(op_name)) return op_name;
  const std::string key(op_name);
  if (const auto given = given_.find(key); given != given_.end()) return names_[given->second];
  std::string_view stem;
  std::uint64_t number = 0;
  if (!split_number(op_name, stem, number)) return op_name;
  const auto group = groups_.find(stem);
  if (group == groups_.end() || group->second.given == group->second.candidates.size()) return op_name;
  const std::uint32_t name = group->second.candidates[group->second.given++];
  given_.emplace(key, name);
  return names_[name];
}

std::vector<std::string_view> ExecutionOrderNames::names_of(std::string_view op_name) const {
  if (known_.contains(op_name)) return {op_name};
  if (const auto given = given_.find(std::string(op_name)); given != given_.end()) return {names_[given->second]};
  std::string_view stem;
  std::uint64_t number = 0;
  if (!split_number(op_name, stem, number)) return {};
  const auto group = groups_.find(stem);
  if (group == groups_.end()) return {};
  const std::vector<std::uint32_t>& candidates = group->second.candidates;
  const std::size_t count = group->second.made_anew > 0 ? group->second.made_anew : candidates.size();
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < count; ++i) names.emplace_back(names_[candidates[i]]);
  return names;
}

}  // namespace sonde
