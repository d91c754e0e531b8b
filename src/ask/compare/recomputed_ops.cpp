#include "ask/compare/recomputed_ops.h"

#include <algorithm>
#include <map>
#include <string>

#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::string_view kAgain = "recompute/";

// `Default/recompute/net/relu-op0` -> `Default/net/relu`
std::string place_of(std::string_view name) {
  std::string place(name.substr(0, name.rfind("-op")));
  const std::size_t at = place.find(kAgain);
  if (at != std::string::npos) place.erase(at, kAgain.size());
  return place;
}

bool reads_the_same(const CompareOp& a, const CompareOp& b) {
  return !a.inputs.empty() && !b.inputs.empty() && a.inputs[0].tensor->content != 0 &&
         a.inputs[0].tensor->content == b.inputs[0].tensor->content;
}

bool gives_the_same_shape(const CompareOp& a, const CompareOp& b) {
  if (a.outputs.empty() || b.outputs.empty() || !a.outputs[0]->has_shape || !b.outputs[0]->has_shape) return true;
  return a.outputs[0]->shape == b.outputs[0]->shape;
}

bool is_of_line(const CatalogOp& a, const CatalogOp& b) { return a.line == b.line && a.source_file == b.source_file; }

}  // namespace

// By op: the op of the forward pass that it runs again. Segments run again in the reverse order, and a compiler has an
// order of its own, so that of several in one place the one that reads the same values is it, else the first of its line
// that no other one repeats, else the first of all.
Group originals_of(const CompareSide& side) {
  Group originals(side.ops.size(), kNoOp);
  std::map<std::string, Group, std::less<>> places;
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    const CatalogOp& op = *side.ops[i].op;
    if (phase_of(op) != Phase::recompute) {
      if (phase_of(op) == Phase::forward) places[place_of(op.op_name)].push_back(i);
      continue;
    }
    const auto at = places.find(place_of(op.op_name));
    if (at == places.end() || at->second.empty()) continue;
    Group& free = at->second;
    auto found =
        std::ranges::find_if(free, [&](std::uint32_t one) { return reads_the_same(side.ops[one], side.ops[i]); });
    for (const bool of_line : {true, false}) {
      if (found != free.end()) break;
      found = std::ranges::find_if(free, [&](std::uint32_t one) {
        return gives_the_same_shape(side.ops[one], side.ops[i]) && (!of_line || is_of_line(*side.ops[one].op, op));
      });
    }
    if (found == free.end()) continue;
    originals[i] = *found;
    free.erase(found);
  }
  return originals;
}

}  // namespace sonde
