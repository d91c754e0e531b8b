// Names and types of the operators that ran, for suggestions if an entry of a list matched none; and operators that did
// not run, because a compiler replaced them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sonde {

inline constexpr std::size_t kMostSeen = 4096;        // kept for suggestions
inline constexpr std::size_t kMostSuggestedFor = 20;  // entries; each costs a comparison with every name kept
inline constexpr std::size_t kSuggestions = 3;

using SeenNames = std::set<std::string, std::less<>>;

inline void remember(SeenNames& seen, std::string_view text) {
  if (seen.size() < kMostSeen && !text.empty()) seen.emplace(text);
}

// Types of operators that an entry names, and the types of those that compute them.
class ReplacedOps {
 public:
  void add(std::string_view type, std::string_view by) {
    auto group = std::ranges::find(groups_, by, &Group::second);
    if (group == groups_.end()) {
      if (groups_.size() == kMostGroups) return;
      group = groups_.insert(groups_.end(), {{}, std::string(by)});
    }
    if (group->first.size() < kMostGroups) group->first.emplace(type);
  }
  // "addmm, linear by mul, sum; mm by mul"
  std::string text() const {
    std::string text;
    for (const auto& [types, by] : groups_) {
      std::string list;
      for (const std::string& type : types) list += (list.empty() ? "" : ", ") + type;
      text += (text.empty() ? "" : "; ") + list + " by " + by;
    }
    return text;
  }

 private:
  static constexpr std::size_t kMostGroups = 3;
  using Group = std::pair<SeenNames, std::string>;
  std::vector<Group> groups_;
};

// Adds the number at the end of a full name: 7 of "Default/relu-op7".
inline void remember_number(std::vector<std::uint32_t>& numbers, std::string_view entry) {
  constexpr std::size_t kMostNumbers = 64, kMostDigits = 9;
  const std::size_t before = entry.find_last_not_of("0123456789");
  const std::size_t digits = before == entry.npos ? entry.size() : entry.size() - 1 - before;
  if (digits == 0 || digits > kMostDigits || numbers.size() >= kMostNumbers) return;
  std::uint32_t number = 0;
  for (const char digit : entry.substr(entry.size() - digits))
    number = 10 * number + static_cast<std::uint32_t>(digit - '0');
  if (std::ranges::find(numbers, number) == numbers.end()) numbers.push_back(number);
}

}  // namespace sonde
