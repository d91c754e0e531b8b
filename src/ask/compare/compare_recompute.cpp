// Activation checkpointing on one side: the ops that run again before the backward pass belong to the golden ones that
// ran once.
#include <algorithm>
#include <map>
#include <string>

#include "ask/compare/compare_step.h"
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

}  // namespace

// By op: the op of the forward pass that it runs again. Segments run again in the reverse order, so that of several in
// one place the one that reads the same values is it, else the first that no other one repeats.
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
    if (found == free.end()) {
      found = std::ranges::find_if(free,
                                   [&](std::uint32_t one) { return gives_the_same_shape(side.ops[one], side.ops[i]); });
    }
    if (found == free.end()) continue;
    originals[i] = *found;
    free.erase(found);
  }
  return originals;
}

const ComparedOp* StepComparer::compared_as(std::uint32_t target, std::uint32_t golden) const {
  const std::uint32_t mine = target_owner_[target], theirs = golden_owner_[golden];
  if (mine != kNone && mine == theirs) return &step_.ops[mine];
  if (mine != kNone && step_.ops[mine].how == MatchedBy::recomputation && step_.ops[mine].golden_index == golden) {
    return &step_.ops[mine];
  }
  if (theirs != kNone && step_.ops[theirs].how == MatchedBy::recomputation &&
      step_.ops[theirs].target_index == target) {
    return &step_.ops[theirs];
  }
  return nullptr;
}

// The target runs this op again, and the golden dump does not.
bool StepComparer::keep_target_again(std::uint32_t target) {
  const std::uint32_t original = target_originals_[target];
  if (original == kNoOp || target_owner_[original] == kNone) return false;
  const std::uint32_t golden = step_.ops[target_owner_[original]].golden_index;
  if (golden == kNoOp || apart_.contains({target, golden})) return false;
  const std::uint32_t owner = golden_owner_[golden];
  keep(judge({target}, {golden}, MatchedBy::recomputation), {target}, {golden});
  golden_owner_[golden] = owner;
  return true;
}

// The golden dump runs ops again that this golden op reads, and the target does not.
void StepComparer::keep_golden_again(std::uint32_t golden) {
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    const std::uint32_t again = input.from;
    if (again == kNoOp || golden_owner_[again] != kNone || promised_[again]) continue;
    const std::uint32_t original = golden_originals_[again];
    if (original == kNoOp || golden_owner_[original] == kNone) continue;
    const std::uint32_t target = step_.ops[golden_owner_[original]].target_index;
    if (target == kNoOp || apart_.contains({target, again})) continue;
    keep_golden_again(again);
    const std::uint32_t owner = target_owner_[target];
    keep(judge({target}, {again}, MatchedBy::recomputation), {target}, {again});
    target_owner_[target] = owner;
  }
}

}  // namespace sonde
