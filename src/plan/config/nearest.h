// Nearest names: suggestions for an unknown name.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sonde {

// Edits that turn `a` into `b`: insertions, deletions, replacements, swaps of neighbours (optimal
// string alignment, the restricted Damerau-Levenshtein distance). Counts bytes, ignores ASCII
// case. O(a.size() * b.size()).
std::size_t edit_distance(std::string_view a, std::string_view b);

// The `most` candidates nearest to `name`, nearest first, equally near ones in the order given. A
// candidate that contains `name` (or is contained in it, when it is 3 bytes or longer) counts as at
// most one edit away. For names longer than 256 bytes only the last 256 are compared.
std::vector<std::string> nearest(std::string_view name, std::span<const std::string_view> candidates,
                                 std::size_t most = 1);

// Near enough to ask "did you mean": at most a third of the letters differ.
bool is_close(std::string_view name, std::string_view candidate);

}  // namespace sonde
