// Several ops of one side that together correspond to one of the other, and ops in another place.
#include <algorithm>

#include "ask/compare/compare_step.h"
#include "read/operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {

// The ops after this one that nothing else of its side reads in between, and that have no counterpart of their own.
Group StepComparer::chain_of(const CompareSide& side, const std::vector<std::uint32_t>& owner,
                             std::uint32_t from) const {
  Group chain = {from};
  const bool is_target = &side == &target_;
  while (chain.size() <= kLongestChain) {
    std::uint32_t next = kNoOp;
    for (const std::uint32_t reader : side.ops[chain.back()].readers) {
      const bool is_free =
          owner[reader] == kNone && (is_target ? matches_[reader].golden == kNoOp : !promised_[reader]);
      if (!is_free || reader <= chain.back() || phase_of(*side.ops[reader].op) != phase_of(*side.ops[from].op))
        continue;
      next = reader;
      break;
    }
    if (next == kNoOp) break;
    chain.push_back(next);
  }
  return chain;
}

// More ops than these two may together correspond to one of the other side.
Judged StepComparer::judge_longer(const Group& target, const Group& golden, Judged first) {
  const Group left = chain_of(target_, target_owner_, target.back());
  const Group right = chain_of(golden_, golden_owner_, golden.back());
  Judged best = std::move(first);
  const bool first_finds = best.finding;
  Group best_left = target, best_right = golden;
  for (std::size_t length = 1; length <= left.size() + right.size() - 2; ++length) {
    for (std::size_t i = 0; i < std::min(left.size(), length + 1); ++i) {
      const std::size_t j = length - i;
      if (j >= right.size()) continue;
      Group longer_left = target, longer_right = golden;
      longer_left.insert(longer_left.end(), left.begin() + 1, left.begin() + 1 + static_cast<std::ptrdiff_t>(i));
      longer_right.insert(longer_right.end(), right.begin() + 1, right.begin() + 1 + static_cast<std::ptrdiff_t>(j));
      Judged judged = judge(longer_left, longer_right, best.op.how);
      if (judged.op.verdict == OpVerdict::unknown || is_coarser_inside(longer_left, longer_right)) continue;
      if (judged.finding && judged.kind == FindingKind::shape && best.kind != FindingKind::shape) continue;
      const bool agrees = judged.op.verdict == OpVerdict::identical || judged.op.verdict == OpVerdict::within_tolerance;
      if (!first_finds && !agrees) continue;
      const bool shape_mended =
          best.kind == FindingKind::shape && best.finding && !(judged.kind == FindingKind::shape && judged.finding);
      if (!judged.finding || shape_mended || judged.relative < 0.1 * best.relative) {
        best = std::move(judged);
        best_left = longer_left;
        best_right = longer_right;
      }
      if (!best.finding && (first_finds || agrees)) return best;
    }
  }
  return best;
}

Group ops_of(const CompareSide& side, const std::vector<const CatalogOp*>& ops, std::uint32_t last) {
  // Groups are short: look them up again.
  Group group;
  for (const CatalogOp* op : ops) {
    for (std::uint32_t i = last + 1; i-- > 0;) {
      if (side.ops[i].op == op) {
        group.push_back(i);
        break;
      }
    }
  }
  return group;
}

// Two paired inputs come from ops that do not correspond, and their values are far apart.
bool StepComparer::reads_foreign(const Judged& judged) const {
  return std::ranges::any_of(judged.inputs, [&](const PairedInput& input) {
    return input.difference != nullptr && input.golden.input != nullptr && input.target.input->is_read &&
           !same_producer(*input.target.input, *input.golden.input) && input.difference->relative() > kMaxExplainable;
  });
}

bool reads_another(const Judged& judged) {
  return std::ranges::any_of(judged.inputs, [](const PairedInput& input) {
    return input.difference != nullptr && input.golden.input != nullptr && input.target.input->from == kNoOp &&
           input.golden.input->from == kNoOp && input.difference->relative() > kMaxExplainable;
  });
}

// Another golden op of the same type and shape that agrees, if the place of this one was guessed.
std::uint32_t StepComparer::find_elsewhere(std::uint32_t target, Judged& judged) {
  const CompareOp& own = target_.ops[target];
  if (own.outputs.empty() || !own.outputs[0]->has_shape) return kNoOp;
  const auto parameter_of = [](const CompareOp& op) {
    for (const CompareInput& input : op.inputs) {
      if (input.from == kNoOp && !input.name.empty()) return input.name;
    }
    return std::string_view();
  };
  std::size_t tried = 0;
  for (std::uint32_t golden = 0; golden < golden_.ops.size() && tried < kMostCandidates; ++golden) {
    const CompareOp& other = golden_.ops[golden];
    if (golden_owner_[golden] != kNone || golden == judged.op.golden_index || other.outputs.empty()) continue;
    if (!OpFamilies::same(*own.family, *other.family) || other.outputs[0]->shape != own.outputs[0]->shape) continue;
    const std::string_view mine = parameter_of(own), theirs = parameter_of(other);
    if (!mine.empty() && mine != theirs && (golden_names_.contains(mine) || target_names_.contains(theirs))) continue;
    ++tried;
    Judged again = judge({target}, {golden}, MatchedBy::flow);
    if (again.finding || reads_another(again) || again.op.verdict == OpVerdict::unknown || again.relative > 1e-3) {
      continue;
    }
    judged = std::move(again);
    return golden;
  }
  return kNoOp;
}

// If both runs have the same precision: whether the target's ops use a coarser type on the way.
bool StepComparer::is_coarser_inside(const Group& target, const Group& golden) const {
  if (other_precision_) return false;
  const auto coarsest = [](const CompareSide& side, const Group& group) {
    double spacing = 0;
    for (const std::uint32_t at : group) {
      for (const CatalogTensor* output : side.ops[at].outputs) spacing = std::max(spacing, epsilon_of(output->dtype));
    }
    return spacing;
  };
  return coarsest(target_, target) > coarsest(golden_, golden);
}

// They do the same, as far as the data shows.
bool StepComparer::is_alike(const Judged& judged, const Group& target, const Group& golden) const {
  const ComparedOp& op = judged.op;
  if (judged.finding || op.verdict == OpVerdict::unknown || op.outputs.empty()) return false;
  if (apart_.contains({op.target_index, op.golden_index}) || is_coarser_inside(target, golden)) return false;
  return op.outputs[0].difference->comparable() && op.outputs[0].difference->relative() <= kMaxExplainable;
}

// An op that has no counterpart may be several of the golden dump's at once, which begin where its inputs are read.
bool StepComparer::find_fused(std::uint32_t target) {
  std::vector<std::uint32_t> starts;
  for (const CompareInput& input : target_.ops[target].inputs) {
    if (input.from == kNoOp || target_owner_[input.from] == kNone) continue;
    const std::uint32_t owner = target_owner_[input.from];
    const std::uint32_t theirs = step_.ops[owner].golden_index;
    if (theirs == kNoOp) continue;
    for (const std::uint32_t reader : golden_.ops[theirs].readers) {
      if (golden_owner_[reader] == kNone && !promised_[reader]) starts.push_back(reader);
    }
  }
  for (const std::uint32_t start : starts) {
    const Group chain = chain_of(golden_, golden_owner_, start);
    for (std::size_t length = chain.size(); length > 0; --length) {
      const Group group(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(length));
      Judged judged = judge({target}, group, MatchedBy::flow);
      if (!is_alike(judged, {target}, group)) continue;
      keep(std::move(judged), {target}, group);
      return true;
    }
  }
  return false;
}

// The reverse: a golden op that corresponds to several of the target's. Called when an op without a counterpart could
// be the last of them.
bool StepComparer::find_parts(std::uint32_t golden) {
  std::vector<std::uint32_t> starts;
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    if (input.from == kNoOp || golden_owner_[input.from] == kNone) continue;
    const std::uint32_t ours = step_.ops[golden_owner_[input.from]].target_index;
    if (ours == kNoOp) continue;
    for (const std::uint32_t reader : target_.ops[ours].readers) {
      if (target_owner_[reader] == kNone && matches_[reader].golden == kNoOp) starts.push_back(reader);
    }
  }
  for (const std::uint32_t start : starts) {
    const Group chain = chain_of(target_, target_owner_, start);
    for (std::size_t length = chain.size(); length > 1; --length) {
      const Group group(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(length));
      Judged judged = judge(group, {golden}, MatchedBy::flow);
      if (!is_alike(judged, group, {golden})) continue;
      keep(std::move(judged), group, {golden});
      return true;
    }
  }
  return false;
}

}  // namespace sonde
