// Names and types of the operators that ran, for suggestions if an entry of a list matched none.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace sonde {

inline constexpr std::size_t kMostSeen = 4096;        // kept for suggestions
inline constexpr std::size_t kMostSuggestedFor = 20;  // entries; each costs a comparison with every name kept
inline constexpr std::size_t kSuggestions = 3;

using SeenNames = std::set<std::string, std::less<>>;

inline void remember(SeenNames& seen, std::string_view text) {
  if (seen.size() < kMostSeen && !text.empty()) seen.emplace(text);
}

}  // namespace sonde
