#include "ask/compare/op_groups.h"

#include <algorithm>
#include <iterator>

namespace sonde {
namespace {

Group first_of(const Group& chain, std::size_t length) {
  return {chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(length)};
}

// Free readers of the counterparts of the ops that an op of one side reads.
template <class Counterpart, class IsFree>
Group free_readers_beside(const CompareOp& op, const CompareSide& other, const Counterpart& counterpart,
                          const IsFree& is_free) {
  Group starts;
  for (const CompareInput& input : op.inputs) {
    const std::uint32_t theirs = input.from == kNoOp ? kNoOp : counterpart(input.from);
    if (theirs == kNoOp) continue;
    std::ranges::copy_if(other.ops[theirs].readers, std::back_inserter(starts), is_free);
  }
  return starts;
}

Group starts_in_golden(const CompareFacts& facts, std::uint32_t target) {
  const auto counterpart = [&](std::uint32_t op) {
    const ComparedOp* maker = facts.pairs.of_target(op);
    return maker == nullptr ? kNoOp : maker->golden_index;
  };
  return free_readers_beside(facts.target.ops[target], facts.golden, counterpart,
                             [&](std::uint32_t reader) { return facts.pairs.is_free_golden(reader); });
}

Group starts_in_target(const CompareFacts& facts, std::uint32_t golden) {
  const auto counterpart = [&](std::uint32_t op) {
    const ComparedOp* maker = facts.pairs.of_golden(op);
    return maker == nullptr ? kNoOp : maker->target_index;
  };
  return free_readers_beside(facts.golden.ops[golden], facts.target, counterpart,
                             [&](std::uint32_t reader) { return facts.pairs.is_free_target(reader); });
}

std::string_view first_parameter(const CompareOp& op) {
  for (const CompareInput& input : op.inputs) {
    if (input.from == kNoOp && !input.name.empty()) return input.name;
  }
  return "";
}

}  // namespace

Judged OpGroups::longer(std::uint32_t target, std::uint32_t golden, Judged first) const {
  const Group left = facts_.pairs.chain_from(false, target);
  const Group right = facts_.pairs.chain_from(true, golden);
  Judged best = std::move(first);
  const bool first_finds = best.finding;
  for (std::size_t length = 1; length <= left.size() + right.size() - 2; ++length) {
    for (std::size_t i = 0; i < std::min(left.size(), length + 1); ++i) {
      const std::size_t j = length - i;
      if (j >= right.size()) continue;
      const Group longer_left = first_of(left, i + 1), longer_right = first_of(right, j + 1);
      Judged judged = judge_.judge(longer_left, longer_right, best.op.how);
      if (judged.op.verdict == OpVerdict::unknown || is_coarser_inside(longer_left, longer_right)) continue;
      if (judged.finding && judged.kind == FindingKind::shape && best.kind != FindingKind::shape) continue;
      const bool agrees = judged.op.verdict == OpVerdict::identical || judged.op.verdict == OpVerdict::within_tolerance;
      if (!first_finds && !agrees) continue;
      const bool shape_mended =
          best.kind == FindingKind::shape && best.finding && !(judged.kind == FindingKind::shape && judged.finding);
      if (!judged.finding || shape_mended || judged.relative < 0.1 * best.relative) {
        best = std::move(judged);
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

bool reads_foreign(const CompareFacts& facts, const Judged& judged) {
  return std::ranges::any_of(judged.inputs, [&](const PairedInput& input) {
    return input.difference != nullptr && input.golden.input != nullptr && input.target.input->is_read &&
           !facts.pairs.same_producer(*input.target.input, *input.golden.input) &&
           (!input.difference->same_shape || input.difference->relative() > kMaxExplainable);
  });
}

bool reads_another(const Judged& judged) {
  return std::ranges::any_of(judged.inputs, [](const PairedInput& input) {
    return input.difference != nullptr && input.golden.input != nullptr && input.target.input->from == kNoOp &&
           input.golden.input->from == kNoOp && input.difference->relative() > kMaxExplainable;
  });
}

std::optional<Judged> OpGroups::elsewhere(std::uint32_t target, std::uint32_t golden) const {
  const CompareOp& own = facts_.target.ops[target];
  if (own.outputs.empty() || !own.outputs[0]->has_shape) return std::nullopt;
  const std::string_view mine = first_parameter(own);
  std::size_t tried = 0;
  for (std::uint32_t at = 0; at < facts_.golden.ops.size() && tried < kMostPairCandidates; ++at) {
    const CompareOp& other = facts_.golden.ops[at];
    if (facts_.pairs.of_golden(at) != nullptr || at == golden || other.outputs.empty()) continue;
    if (!OpFamilies::same(*own.family, *other.family) || other.outputs[0]->shape != own.outputs[0]->shape) continue;
    const std::string_view theirs = first_parameter(other);
    if (!mine.empty() && mine != theirs && (facts_.names.in_golden(mine) || facts_.names.in_target(theirs))) continue;
    ++tried;
    Judged again = judge_.judge({target}, {at}, MatchedBy::flow);
    const bool is_known = again.op.verdict != OpVerdict::unknown;
    if (is_known && !again.finding && !reads_another(again) && again.relative <= 1e-3) return again;
  }
  return std::nullopt;
}

// If both runs have the same precision: whether the target's ops use a coarser type on the way.
bool OpGroups::is_coarser_inside(const Group& target, const Group& golden) const {
  if (facts_.other_precision) return false;
  const auto coarsest = [](const CompareSide& side, const Group& group) {
    double spacing = 0;
    for (const std::uint32_t at : group) {
      for (const CatalogTensor* output : side.ops[at].outputs) spacing = std::max(spacing, epsilon_of(output->dtype));
    }
    return spacing;
  };
  return coarsest(facts_.target, target) > coarsest(facts_.golden, golden);
}

// They do the same, as far as the data shows.
bool OpGroups::is_alike(const Judged& judged, const Group& target, const Group& golden) const {
  const ComparedOp& op = judged.op;
  if (judged.finding || op.verdict == OpVerdict::unknown || op.outputs.empty()) return false;
  if (facts_.pairs.are_apart(op.target_index, op.golden_index) || is_coarser_inside(target, golden)) return false;
  return op.outputs[0].difference->comparable() && op.outputs[0].difference->relative() <= kMaxExplainable;
}

std::optional<Judged> OpGroups::fused(std::uint32_t target) const {
  for (const std::uint32_t start : starts_in_golden(facts_, target)) {
    const Group chain = facts_.pairs.chain_from(true, start);
    for (std::size_t length = chain.size(); length > 0; --length) {
      const Group group = first_of(chain, length);
      Judged judged = judge_.judge({target}, group, MatchedBy::flow);
      if (is_alike(judged, {target}, group)) return judged;
    }
  }
  return std::nullopt;
}

std::optional<Judged> OpGroups::part_of(std::uint32_t target) const {
  for (const std::uint32_t golden : starts_in_golden(facts_, target)) {
    if (std::optional<Judged> judged = parts(golden)) return judged;
  }
  return std::nullopt;
}

std::optional<Judged> OpGroups::parts(std::uint32_t golden) const {
  for (const std::uint32_t start : starts_in_target(facts_, golden)) {
    const Group chain = facts_.pairs.chain_from(false, start);
    for (std::size_t length = chain.size(); length > 1; --length) {
      const Group group = first_of(chain, length);
      Judged judged = judge_.judge(group, {golden}, MatchedBy::flow);
      if (is_alike(judged, group, {golden})) return judged;
    }
  }
  return std::nullopt;
}

}  // namespace sonde
