// Attributes of a collective that say between which ranks it is.
#pragma once

#include <string_view>

namespace sonde {

// Arguments with the group's name: of c10d's operators and of functional ones.
inline constexpr std::string_view kGroupNames[] = {"process_group", "group_name"};
// Not an argument: the ranks of that group, in its order.
inline constexpr std::string_view kGroupRanks = "group_ranks";
// Not an argument: who calls it, if not the program's own line. "DDP bucket 0: fc2.weight, fc2.bias".
inline constexpr std::string_view kCalledBy = "called_by";

}  // namespace sonde
