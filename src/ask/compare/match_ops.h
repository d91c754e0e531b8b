// Matches the ops of one step with those of another: by a mapping, by name and place, then by data flow.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ask/compare/compare_side.h"
#include "ask/compare/layer_names.h"

namespace sonde {

enum class MatchedBy : std::uint8_t { nothing, mapping, name, order, flow, recomputation, values };
std::string_view word_of(MatchedBy how);
// Their likeness alone shows that the two belong together.
constexpr bool is_guess(MatchedBy how) { return how == MatchedBy::order || how == MatchedBy::flow; }

struct OpMatch {
  std::uint32_t golden = kNoOp;
  MatchedBy how = MatchedBy::nothing;
  // Nothing but the order of like ops shows that the two belong together: no producer, parameter, value, line or name.
  bool by_order_alone = false;
};

// Names of the target's ops and of the matching golden ones (full names, or their last parts), and of layers.
struct NameMap {
  std::map<std::string, std::string, std::less<>> ops;
  LayerNames layers;
  bool empty() const { return ops.empty() && layers.empty(); }
};

// True if two tensors from outside are known to have the same values.
using SameValues = std::function<bool(const CatalogTensor& target, const CatalogTensor& golden)>;

// Indexed by the target's ops. No golden op is matched twice. Takes time proportional to the number of ops if both
// steps ran about the same program. What the sides read from outside gets its names and numbers (common_names.h).
std::vector<OpMatch> match_ops(CompareSide& target, CompareSide& golden, const NameMap& names,
                               const SameValues& same_values);

// The reason why an op has no counterpart, and the most similar golden op.
struct Nearest {
  std::uint32_t op = kNoOp;  // of the other side; kNoOp: none is similar
  std::string why;           // "another shape: (2,3), not (3,2)"
};
Nearest nearest_to(const CompareSide& side, std::uint32_t op, const CompareSide& other);

}  // namespace sonde
