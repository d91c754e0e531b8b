// Matches the ops of one step with those of another: by a mapping, by name and place, then by data flow.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compare/compare_side.h"

namespace sonde {

enum class MatchedBy : std::uint8_t { nothing, mapping, name, order, flow };
std::string_view word_of(MatchedBy how);

struct OpMatch {
  std::uint32_t golden = kNoOp;
  MatchedBy how = MatchedBy::nothing;
};

// Names of the target's ops and of the matching golden ones (full names, or their last parts).
using NameMap = std::map<std::string, std::string, std::less<>>;

// Indexed by the target's ops. No golden op is matched twice. Takes time proportional to the number of ops if both
// steps ran about the same program.
std::vector<OpMatch> match_ops(const CompareSide& target, const CompareSide& golden, const NameMap& names);

// The reason why an op has no counterpart, and the most similar golden op.
struct Nearest {
  std::uint32_t op = kNoOp;  // of the other side; kNoOp: none is similar
  std::string why;           // "another shape: (2,3), not (3,2)"
};
Nearest nearest_to(const CompareSide& side, std::uint32_t op, const CompareSide& other);

}  // namespace sonde
