#include "ask/compare/flow_mender.h"

#include <algorithm>

#include "ground/model/group_attributes.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr std::size_t kMostTries = 4096;    // of a step
constexpr std::size_t kMostChanges = 4096;  // that follow from one exchange
constexpr std::size_t kMostMates = 64;

// Parts of one tensor differ in the numbers of the calls: `h[:, :4]` and `h[:, 4:]`.
bool is_called_alike(const CatalogOp& target, const CatalogOp& golden) {
  if (target.attributes == nullptr || golden.attributes == nullptr || target.op_type != golden.op_type) return true;
  return std::ranges::all_of(*target.attributes, [&](const Attribute& one) {
    const Attribute* other = attribute_of(golden, one.name);
    return other == nullptr || *other == one || one.name == kFusedKernel || one.name == kCalledBy;
  });
}

const CompareInput* input_of(const CompareOp& op, std::uint32_t slot) {
  const auto at = std::ranges::find_if(op.inputs, [&](const CompareInput& one) { return one.tensor->slot == slot; });
  return at == op.inputs.end() ? nullptr : &*at;
}

}  // namespace

FlowMender::FlowMender(const CompareSide& target, const CompareSide& golden, std::vector<OpMatch>& matches,
                       MayBelong may_belong)
    : target_(target),
      golden_(golden),
      matches_(matches),
      may_belong_(std::move(may_belong)),
      taken_(golden.ops.size(), kNoTarget) {
  for (std::uint32_t t = 0; t < matches.size(); ++t) {
    if (matches[t].golden != kNoOp) taken_[matches[t].golden] = t;
  }
  for (std::uint32_t g = 0; g < golden.ops.size(); ++g) {
    for (const CompareInput& input : golden.ops[g].inputs) {
      if (input.outside != 0) readers_of_outside_[{input.outside, input.tensor->slot}].push_back(g);
    }
  }
}

// 1: both read the same; -1: they do not; 0: unknown.
int FlowMender::agreement(const CompareInput& target, const CompareInput& golden) const {
  if (target.from == kNoOp && golden.from == kNoOp) {
    if (target.outside == 0 || golden.outside == 0) return 0;
    return target.outside == golden.outside ? 1 : -1;
  }
  if (target.from == kNoOp || golden.from == kNoOp) return 0;
  const std::uint32_t theirs = matches_[target.from].golden;
  if (theirs == golden.from) return target.from_slot == golden.from_slot ? 1 : -1;
  return theirs == kNoOp || taken_[golden.from] == kNoTarget ? 0 : -1;
}

int FlowMender::agreement(std::uint32_t target, std::uint32_t golden) const {
  if (golden == kNoOp) return 0;
  const CompareOp &a = target_.ops[target], &b = golden_.ops[golden];
  const int calls = is_called_alike(*a.op, *b.op) ? 0 : -1;
  int sum = 0;
  for (const CompareInput& input : a.inputs) {
    const CompareInput* other = input_of(b, input.tensor->slot);
    if (other != nullptr) sum += agreement(input, *other);
  }
  if (a.inputs.size() != 2 || b.inputs.size() != 2 || !is_commutative(bare_type(a.op->op_type))) return calls + sum;
  return calls + std::max(sum, agreement(a.inputs[0], b.inputs[1]) + agreement(a.inputs[1], b.inputs[0]));
}

// Golden ops that read in the same slot what this input is.
void FlowMender::find_candidates(std::uint32_t target, const CompareInput& input,
                                 std::set<std::uint32_t>& found) const {
  const std::uint32_t slot = input.tensor->slot;
  const auto add = [&](std::uint32_t golden) {
    if (found.size() < kMostMates && golden != matches_[target].golden && may_belong_(target, golden)) {
      found.insert(golden);
    }
  };
  if (input.from == kNoOp) {
    const auto at = readers_of_outside_.find({input.outside, slot});
    if (input.outside != 0 && at != readers_of_outside_.end()) std::ranges::for_each(at->second, add);
    return;
  }
  const std::uint32_t theirs = matches_[input.from].golden;
  if (theirs == kNoOp) return;
  for (const std::uint32_t golden : golden_.ops[theirs].readers) {
    const CompareInput* read = input_of(golden_.ops[golden], slot);
    if (read != nullptr && read->from == theirs && read->from_slot == input.from_slot) add(golden);
  }
}

int FlowMender::gain_of(std::uint32_t target, std::uint32_t golden) const {
  const std::uint32_t before = matches_[target].golden, other = taken_[golden];
  int gain = agreement(target, golden) - agreement(target, before);
  if (other == kNoTarget) return gain;
  gain -= agreement(other, golden);
  if (before != kNoOp && may_belong_(other, before)) gain += agreement(other, before);
  return gain;
}

// The golden op whose inputs agree better with those of this op; kNoOp: none.
std::uint32_t FlowMender::better_for(std::uint32_t target) const {
  const std::uint32_t now = matches_[target].golden;
  if (matches_[target].how == MatchedBy::mapping || (now != kNoOp && !may_belong_(target, now))) return kNoOp;
  std::set<std::uint32_t> candidates;
  const bool otherwise = now == kNoOp || !is_called_alike(*target_.ops[target].op, *golden_.ops[now].op);
  for (const CompareInput& input : target_.ops[target].inputs) {
    const CompareInput* other = now == kNoOp ? nullptr : input_of(golden_.ops[now], input.tensor->slot);
    if (otherwise || (other != nullptr && agreement(input, *other) < 0)) find_candidates(target, input, candidates);
  }
  std::uint32_t best = kNoOp;
  int most = 0;
  for (const std::uint32_t golden : candidates) {
    const int gain = gain_of(target, golden);
    if (gain <= most) continue;
    most = gain;
    best = golden;
  }
  return best;
}

void FlowMender::set(std::uint32_t target, std::uint32_t golden) {
  changes_.push_back({target, matches_[target].golden});
  matches_[target].golden = golden;
  if (golden != kNoOp) taken_[golden] = target;
}

void FlowMender::exchange(std::uint32_t target, std::uint32_t golden) {
  const std::uint32_t before = matches_[target].golden, other = taken_[golden];
  set(target, golden);
  if (before != kNoOp) taken_[before] = kNoTarget;
  if (other == kNoTarget) return;
  const bool fits = before != kNoOp && may_belong_(other, before);
  set(other, fits ? before : kNoOp);
}

int FlowMender::sum_over(const std::set<std::uint32_t>& ops) const {
  int sum = 0;
  for (const std::uint32_t target : ops) sum += agreement(target, matches_[target].golden);
  return sum;
}

// With all exchanges that follow from it at the ops that read the results.
bool FlowMender::try_exchange(std::uint32_t target, std::uint32_t golden) {
  changes_.clear();
  std::set<std::uint32_t> border, affected;
  const auto follow = [&](std::size_t from) {
    for (; from < changes_.size(); ++from) {
      const std::uint32_t changed = changes_[from].target;
      affected.insert(changed);
      for (const std::uint32_t reader : target_.ops[changed].readers) {
        affected.insert(reader);
        border.insert(reader);
      }
    }
  };
  exchange(target, golden);
  follow(0);
  while (!border.empty() && changes_.size() < kMostChanges) {
    const std::uint32_t reader = *border.begin();
    border.erase(border.begin());
    const std::uint32_t better = better_for(reader);
    if (better == kNoOp) continue;
    const std::size_t known = changes_.size();
    exchange(reader, better);
    follow(known);
  }
  const int after = sum_over(affected);
  std::vector<OpMatch> changed;
  for (const Change& change : changes_) changed.push_back(matches_[change.target]);
  const auto rebuild = [&](std::uint32_t t, std::uint32_t to) {
    if (matches_[t].golden != kNoOp && taken_[matches_[t].golden] == t) taken_[matches_[t].golden] = kNoTarget;
    matches_[t].golden = to;
  };
  for (std::size_t i = changes_.size(); i-- > 0;) rebuild(changes_[i].target, changes_[i].golden_before);
  for (const Change& change : changes_) {
    if (matches_[change.target].golden != kNoOp) taken_[matches_[change.target].golden] = change.target;
  }
  if (sum_over(affected) >= after) return false;
  for (std::size_t i = 0; i < changes_.size(); ++i) rebuild(changes_[i].target, changed[i].golden);
  for (const Change& change : changes_) {
    const std::uint32_t now = matches_[change.target].golden;
    if (now != kNoOp) taken_[now] = change.target;
    matches_[change.target].how = now == kNoOp ? MatchedBy::nothing : MatchedBy::flow;
  }
  return true;
}

void FlowMender::run() {
  std::size_t tries = 0;
  for (std::uint32_t t = 0; t < matches_.size() && tries < kMostTries; ++t) {
    const std::uint32_t better = better_for(t);
    if (better == kNoOp) continue;
    ++tries;
    try_exchange(t, better);
  }
}

bool FlowMender::is_shown_by_flow(std::uint32_t target) const {
  const std::uint32_t golden = matches_[target].golden;
  if (golden == kNoOp) return false;
  for (const CompareInput& input : target_.ops[target].inputs) {
    const CompareInput* other = input_of(golden_.ops[golden], input.tensor->slot);
    if (other != nullptr && agreement(input, *other) > 0) return true;
  }
  for (const std::uint32_t reader : target_.ops[target].readers) {
    const std::uint32_t theirs = matches_[reader].golden;
    if (theirs == kNoOp) continue;
    for (const CompareInput& input : target_.ops[reader].inputs) {
      const CompareInput* other = input_of(golden_.ops[theirs], input.tensor->slot);
      if (input.from == target && other != nullptr && other->from == golden && other->from_slot == input.from_slot) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace sonde
