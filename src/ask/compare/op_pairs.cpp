#include "ask/compare/op_pairs.h"

#include <algorithm>
#include <optional>

#include "ask/compare/other_lines.h"
#include "ground/base/shape.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr double kSameResult = 1e-5;

// How an optimizer updates: one op for all parameters, lists of them, or one after the other.
struct OptimizerStyle {
  bool fused = false, lists = false, any = false;
};

OptimizerStyle optimizer_style(const CompareSide& side) {
  OptimizerStyle style;
  for (const CompareOp& op : side.ops) {
    if (phase_of(*op.op) != Phase::optimizer) continue;
    style.any = true;
    style.fused = style.fused || is_fused_optimizer(op.op->op_type);
    style.lists = style.lists || (op.in_place && is_list_op(op.op->op_type));
  }
  style.lists = style.lists && !style.fused;
  return style;
}

bool reads_parameter(const CompareOp& op) {
  return std::ranges::any_of(op.inputs,
                             [](const CompareInput& input) { return input.tensor->parameter.is_parameter(); });
}

ComparedOp alone(const CompareSide& side, std::uint32_t op, const CompareSide& other) {
  ComparedOp compared;
  compared.kind = side.ops[op].kind;
  compared.verdict = OpVerdict::unmatched;
  compared.nearest = nearest_to(side, op, other);
  compared.reason = compared.nearest.why;
  return compared;
}

}  // namespace

bool same_elements(const CatalogTensor& a, const CatalogTensor& b) {
  return !a.has_shape || !b.has_shape || element_count(a.shape) == element_count(b.shape);
}

OpPairs::OpPairs(ComparedStep& step, const NameMap& names, const std::set<OpPair>& apart)
    : step_(step),
      target_(*step.target),
      golden_(*step.golden),
      apart_(apart),
      promised_(golden_.ops.size(), false),
      inside_block_(target_.ops.size(), false),
      of_target_(target_.ops.size()),
      of_golden_(golden_.ops.size()) {
  const SameValues same_values = [&](const CatalogTensor& target, const CatalogTensor& golden) {
    if (!target.recorded() || !golden.recorded() || !same_elements(target, golden)) return false;
    const TensorDifference& found = step.differences->of({target_.rank, &target}, {golden_.rank, &golden});
    return found.comparable() && found.equal;
  };
  matches_ = match_ops(*step.target, *step.golden, names, same_values);
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    if (are_apart(t, matches_[t].golden)) matches_[t].golden = kNoOp;
  }
  leave_optimizers_out();
  leave_other_lines_out();
  collect_blocks();
  for (const OpMatch& match : matches_) {
    if (match.golden != kNoOp) promised_[match.golden] = true;
  }
}

// No op of one style belongs to one of the other.
void OpPairs::leave_optimizers_out() {
  const OptimizerStyle left = optimizer_style(target_), right = optimizer_style(golden_);
  other_optimizers_ = left.any && right.any && (left.fused != right.fused || left.lists != right.lists);
  if (!other_optimizers_) return;
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    if (phase_of(*target_.ops[t].op) == Phase::optimizer) matches_[t].golden = kNoOp;
  }
  step_.notes_of_both.push_back(
      "the optimizers update in different ways (fused, by lists, one by one): their results are compared where the "
      "next step reads them, and a difference of less than 2 % of an update is not seen");
}

// Like ops of two places in the program, one of which each run passed by: their results have other sizes. Where they read
// parameters, these show what belongs together.
void OpPairs::leave_other_lines_out() {
  std::optional<OtherLines> lines;  // most steps have no such pair
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    OpMatch& match = matches_[t];
    if (match.golden == kNoOp || match.how == MatchedBy::mapping) continue;
    const CompareOp &mine = target_.ops[t], &theirs = golden_.ops[match.golden];
    if (phase_of(*mine.op) != Phase::forward || reads_parameter(mine) || reads_parameter(theirs)) continue;
    if (mine.outputs.empty() || theirs.outputs.empty() || same_elements(*mine.outputs[0], *theirs.outputs[0])) continue;
    if (!lines) lines.emplace(target_, golden_);
    if (lines->have(*mine.op, *theirs.op)) match = {};
  }
}

// Ops of a block belong to no single op any more, but for its end.
void OpPairs::collect_blocks() {
  const SameValues same_result = [&](const CatalogTensor& target, const CatalogTensor& golden) {
    if (!target.recorded() || !golden.recorded() || !same_elements(target, golden)) return false;
    const TensorDifference& found = step_.differences->of({target_.rank, &target}, {golden_.rank, &golden});
    return found.comparable() && found.by != ComparedBy::checksum && found.relative() <= kSameResult;
  };
  blocks_ = find_blocks(target_, golden_, matches_, same_result);
  std::erase_if(blocks_, [&](const OpBlock& block) { return are_apart(block.target.back(), block.golden.back()); });
  for (const OpBlock& block : blocks_) {
    for (OpMatch& match : matches_) {
      if (match.golden != kNoOp && std::ranges::find(block.golden, match.golden) != block.golden.end()) match = {};
    }
    for (const std::uint32_t t : block.target) {
      matches_[t] = {};
      inside_block_[t] = true;
    }
    inside_block_[block.target.back()] = false;
    matches_[block.target.back()] = {block.golden.back(), MatchedBy::flow};
  }
}

const OpBlock* OpPairs::block_at(std::uint32_t target) const {
  const auto at = std::ranges::find_if(blocks_, [&](const OpBlock& block) { return block.target.back() == target; });
  return at == blocks_.end() ? nullptr : &*at;
}

bool OpPairs::is_alone(bool in_golden, std::uint32_t op) const {
  if (op == kNoOp) return false;
  const ComparedOp* compared = of(in_golden, op);
  return compared != nullptr && compared->verdict == OpVerdict::unmatched;
}

bool OpPairs::is_doubtful(const ComparedOp& op) const {
  const auto around = [&](bool in_golden, std::uint32_t at) {
    const CompareOp& one = side(in_golden).ops[at];
    return std::ranges::any_of(one.inputs,
                               [&](const CompareInput& input) { return is_alone(in_golden, input.from); }) ||
           std::ranges::any_of(one.readers, [&](std::uint32_t reader) { return is_alone(in_golden, reader); });
  };
  return around(false, op.target_index) || around(true, op.golden_index);
}

std::uint32_t OpPairs::first_alone_before(bool in_golden, std::uint32_t op) const {
  // Golden ops without a counterpart are kept last.
  const auto has_none = [&](std::uint32_t at) {
    return in_golden ? is_free_golden(at) : of_target_[at] != nullptr && of_target_[at]->golden.empty();
  };
  const std::vector<CompareOp>& ops = side(in_golden).ops;
  std::uint32_t first = op;
  for (std::size_t steps = 0; steps < kLongestChain; ++steps) {
    std::uint32_t before = kNoOp;
    for (const CompareInput& input : ops[op].inputs) {
      if (input.from != kNoOp && has_none(input.from)) before = input.from;
    }
    if (before == kNoOp) break;
    op = before;
    const bool is_collective = nature_of(*ops[op].op).collective;
    const bool is_of_compiler = ops[op].op->line == 0 && ops[first].op->line != 0;  // seeds that it draws beforehand
    if ((ops[op].kind != OpKind::copy && !is_of_compiler) || is_collective) first = op;
    if (is_collective) break;
  }
  return first;
}

Group OpPairs::chain_from(bool in_golden, std::uint32_t op) const {
  const std::vector<CompareOp>& ops = side(in_golden).ops;
  Group chain = {op};
  while (chain.size() <= kLongestChain) {
    const std::uint32_t last = chain.back();
    const auto next = std::ranges::find_if(ops[last].readers, [&](std::uint32_t reader) {
      return is_free(in_golden, reader) && reader > last && phase_of(*ops[reader].op) == phase_of(*ops[op].op);
    });
    if (next == ops[last].readers.end()) break;
    chain.push_back(*next);
  }
  return chain;
}

std::uint32_t OpPairs::place_of_golden(std::uint32_t golden) const {
  for (std::uint32_t g = golden + 1; g-- > 0;) {
    if (of_golden_[g] != nullptr && of_golden_[g]->target_index != kNoOp) return of_golden_[g]->target_index;
  }
  return 0;
}

const ComparedOp* OpPairs::compared_as(std::uint32_t target, std::uint32_t golden) const {
  const ComparedOp *mine = of_target_[target], *theirs = of_golden_[golden];
  if (mine != nullptr && mine == theirs) return mine;
  const auto is_again = [](const ComparedOp* op) { return op != nullptr && op->how == MatchedBy::recomputation; };
  if (is_again(mine) && mine->golden_index == golden) return mine;
  if (is_again(theirs) && theirs->target_index == target) return theirs;
  return nullptr;
}

bool OpPairs::same_producer(const CompareInput& target, const CompareInput& golden) const {
  if (target.from == kNoOp || golden.from == kNoOp) return false;
  const ComparedOp* from = compared_as(target.from, golden.from);
  if (from == nullptr) return false;
  if (target.from != from->target_index || golden.from != from->golden_index) return true;  // inside a fused one
  for (const ComparedTensor& output : from->outputs) {
    const bool left = output.target->slot == target.from_slot, right = output.golden->slot == golden.from_slot;
    if (left || right) return left && right;
  }
  return true;
}

const ComparedTensor* OpPairs::output_read(const CompareInput& target, const CompareInput& golden) const {
  if (!same_producer(target, golden)) return nullptr;
  const ComparedOp& from = *compared_as(target.from, golden.from);
  if (target.from != from.target_index || golden.from != from.golden_index) return nullptr;
  const auto at = std::ranges::find_if(
      from.outputs, [&](const ComparedTensor& output) { return output.target->slot == target.from_slot; });
  return at == from.outputs.end() ? nullptr : &*at;
}

void OpPairs::exchange(std::uint32_t target, std::uint32_t golden) {
  OpMatch& match = matches_[target];
  const auto promised = std::ranges::find(matches_, golden, &OpMatch::golden);
  const std::uint32_t before = match.golden;
  match.golden = golden;
  match.by_order_alone = false;
  if (promised != matches_.end()) promised->golden = before;
  if (promised == matches_.end()) promised_[before] = false;
  promised_[golden] = true;
}

ComparedOp& OpPairs::keep(ComparedOp op, const Group& target, const Group& golden) {
  ComparedOp& kept = step_.ops.emplace_back(std::move(op));
  for (const std::uint32_t t : target) of_target_[t] = &kept;
  for (const std::uint32_t g : golden) of_golden_[g] = &kept;
  return kept;
}

void OpPairs::keep_alone(std::uint32_t target) {
  ComparedOp& op = keep(alone(target_, target, golden_), {target}, {});
  op.target_index = target;
  op.target = {target_.ops[target].op};
}

void OpPairs::keep_alone_in_golden() {
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    if (of_golden_[g] != nullptr) continue;
    ComparedOp& op = keep(alone(golden_, g, target_), {}, {g});
    op.golden_index = g;
    op.golden = {golden_.ops[g].op};
  }
}

}  // namespace sonde
