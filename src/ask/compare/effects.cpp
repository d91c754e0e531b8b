#include "ask/compare/effects.h"

#include <algorithm>

#include "ask/compare/compare_words.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// An error of this size has vanished: `source` is the error at its origin.
bool is_healed(const ComparedTensor& tensor, double source, bool one_precision) {
  const TensorDifference& difference = *tensor.difference;
  if (difference.equal) return true;
  // A coarser type of one side alone hides what it has rounded away.
  const double mine = epsilon_of(difference.dtype), theirs = epsilon_of(difference.golden_dtype);
  const double spacing = one_precision ? std::min(mine, theirs) : std::max(mine, theirs);
  const double rounding = rounding_of(spacing);
  return difference.different_non_finite == 0 && !hides_its_error(difference) &&
         difference.relative() <= std::max(rounding, 1e-4 * std::min(source, 1.0));
}

// It, or an op beside it, has no counterpart or one of several ops, or reads other parameters.
bool is_built_otherwise(const CompareFacts& facts, const ComparedOp& op) {
  if (op.target.size() != op.golden.size() || facts.pairs.is_doubtful(op) || reads_other_parameters(facts, op))
    return true;
  return std::ranges::any_of(facts.target.ops[op.target_index].inputs, [&](const CompareInput& input) {
    if (input.from == kNoOp || facts.pairs.of_target(input.from) == nullptr) return false;
    const ComparedOp& maker = *facts.pairs.of_target(input.from);
    return !maker.target.empty() && !maker.golden.empty() && reads_other_parameters(facts, maker);
  });
}

// More than rounding, and more than the differences before it explain.
bool is_changed(const CompareFacts& facts, const ComparedTensor& tensor) {
  const TensorDifference& difference = *tensor.difference;
  if (!is_comparable(tensor)) return false;
  const double seen = 16 * std::max(facts.seen.now, facts.seen.before);
  return difference.relative() > 4 * coarser_spacing(difference) + seen ||
         common_error(difference) > least_error_of_addition(difference) + seen;
}

// A sum in which the other terms are the same: its result differs by what this term does, however little of that shows.
bool adds_the_same_to(const CompareFacts& facts, const ComparedOp& op, const ComparedTensor& read) {
  if (op.target.size() != 1 || op.golden.size() != 1 || op.inputs.size() < 2) return false;
  const CatalogOp &mine = *op.target.front(), &theirs = *op.golden.front();
  if (!is_addition(shared_type(mine.op_type)) || !is_addition(shared_type(theirs.op_type)) ||
      !numbers_apart(mine, theirs).empty())
    return false;
  return std::ranges::all_of(op.inputs, [&](const ComparedTensor& term) {
    return &term == &read || (is_comparable(term) && !is_changed(facts, term));
  });
}

// All readers of an op that one side alone has, as ops of the target: where one shows nothing, another one may.
std::vector<std::uint32_t> readers_of_alone(const CompareFacts& facts, const CompareFinding& finding) {
  const bool is_alone = finding.kind == FindingKind::inserted || finding.kind == FindingKind::missing;
  if (!is_alone || finding.culprit == nullptr) return {};
  const CompareSide& side = facts.side(finding.in_golden);
  const auto culprit = std::ranges::find(side.ops, finding.culprit, &CompareOp::op);
  if (culprit == side.ops.end()) return {};
  std::vector<std::uint32_t> found;
  for (const std::uint32_t reader : culprit->readers) {
    const ComparedOp* op = finding.in_golden ? facts.pairs.of_golden(reader) : facts.pairs.of_target(reader);
    if (op != nullptr && !op->target.empty() && !op->golden.empty()) found.push_back(op->target_index);
  }
  return found;
}

}  // namespace

bool is_changed_by_addition(const CompareFacts& facts, const ComparedOp& op, const ComparedTensor& read) {
  const TensorDifference& input = *read.difference;
  const bool half = input.dtype == input.golden_dtype && is_half(epsilon_of(input.dtype));
  if (!half || facts.other_precision || facts.options.tolerance.given() || !is_changed(facts, read)) return false;
  return adds_the_same_to(facts, op, read) ||
         std::ranges::any_of(op.outputs, [&](const ComparedTensor& output) { return is_changed(facts, output); });
}

bool is_one_side_longer(const CompareFacts& facts, bool in_golden) {
  const auto count = static_cast<std::uint32_t>((in_golden ? facts.target : facts.golden).ops.size());
  for (std::uint32_t op = 0; op < count; ++op) {
    if (facts.pairs.is_alone(!in_golden, op)) return false;
  }
  return true;
}

bool is_comparable(const ComparedTensor& tensor) {
  const TensorDifference& difference = *tensor.difference;
  return difference.comparable() && (difference.equal || difference.by != ComparedBy::checksum);
}

bool is_in_another_layout(const CompareFacts& facts, std::string_view parameter) {
  return facts.history.layout != nullptr && facts.history.layout->holds(parameter);
}

bool is_in_another_layout(const CompareFacts& facts, const CompareFinding& finding) {
  if (finding.kind != FindingKind::parameter || finding.tensor == nullptr) return false;
  const auto& inputs = facts.target.ops[finding.op->target_index].inputs;
  return std::ranges::any_of(inputs, [&](const CompareInput& input) {
    return input.tensor == finding.tensor->target && is_in_another_layout(facts, input.name);
  });
}

bool reads_other_layouts(const CompareFacts& facts, std::uint32_t optimizer_op) {
  const CompareOp& op = facts.target.ops[optimizer_op];
  if (phase_of(*op.op) != Phase::optimizer || facts.history.layout == nullptr) return false;
  return std::ranges::any_of(
      op.inputs, [&](const CompareInput& input) { return facts.history.layout->holds_or_its_parameter(input.name); });
}

bool reads_other_parameters(const CompareFacts& facts, const ComparedOp& op) {
  const auto count = [](const CompareSide& side, std::uint32_t at) {
    return std::ranges::count_if(side.ops[at].inputs, [](const CompareInput& input) {
      return input.is_read && input.from == kNoOp && !input.tensor->parameter.empty();
    });
  };
  return op.target.size() == 1 && op.golden.size() == 1 &&
         count(facts.target, op.target_index) != count(facts.golden, op.golden_index);
}

LaterEffect effect_of(const CompareFacts& facts, const CompareFinding& finding) {
  const ComparedOp& at = *finding.op;
  double source = 1;
  if (finding.tensor != nullptr && finding.tensor->difference->same_shape) {
    source = finding.tensor->difference->relative();
  }
  if (is_in_another_layout(facts, finding))
    source = 0;  // the size of its error says nothing: only rounding is left of it
  LaterEffect effect;
  // Statistics see little of an error that is added to something larger. If no op on the way is built in another way,
  // which could undo it, it stays.
  bool can_be_undone =
      !finding.shows_in_reader || reads_other_parameters(facts, at) || !is_one_side_longer(facts, finding.in_golden);
  std::vector<bool> visited(facts.target.ops.size(), false);
  std::vector<std::uint32_t> border = readers_of_alone(facts, finding);
  if (std::ranges::find(border, at.target_index) == border.end()) border.push_back(at.target_index);
  const std::vector<std::uint32_t> first = border;
  for (const std::uint32_t op : first) visited[op] = true;
  while (!border.empty()) {
    const std::uint32_t t = border.back();
    border.pop_back();
    // Null: an op that was not compared.
    const ComparedOp* op = facts.pairs.of_target(t) != nullptr ? facts.pairs.of_target(t) : nullptr;
    const bool is_last = op != nullptr && !op->golden.empty() && op->target_index == t;
    const bool is_decisive = is_last && !op->outputs.empty() && std::ranges::all_of(op->outputs, is_comparable);
    const bool otherwise = !is_last || is_built_otherwise(facts, *op);
    effect.built_otherwise = effect.built_otherwise || otherwise;
    // The op of one side is beside the first ones, and its gradient beside others.
    const bool is_first = std::ranges::find(first, t) != first.end();
    if (!is_first && phase_of(*facts.target.ops[t].op) == Phase::forward) can_be_undone = can_be_undone || otherwise;
    const auto healed = [&](const ComparedTensor& tensor) { return is_healed(tensor, source, !facts.other_precision); };
    if (is_decisive && std::ranges::all_of(op->outputs, healed)) {
      // The inputs of the optimizer count, however little of them is left in the parameter.
      const bool updates = phase_of(*facts.target.ops[t].op) == Phase::optimizer;
      if (updates && !reads_other_layouts(facts, t) &&
          !std::ranges::all_of(op->inputs, [&](const ComparedTensor& in) { return is_comparable(in) && healed(in); })) {
        effect.lasts = true;
        return effect;
      }
      const bool hides = chooses(facts.target.ops[t]) && !is_training(facts.target);
      const bool is_same = std::ranges::all_of(op->inputs, [&](const ComparedTensor& in) {
        return in.difference->equal || (is_comparable(in) && healed(in));
      });
      if (hides && !is_same) {
        effect.lasts = true;
        return effect;
      }
      effect.heals = true;
      continue;
    }
    bool is_read = false;
    for (const std::uint32_t reader : facts.target.ops[t].readers) {
      const auto reads = [&](const CompareInput& input) { return input.from == t && input.is_read; };
      if (facts.target.ops[reader].outputs.empty()) continue;  // `item` takes a result out of the step
      is_read = is_read || std::ranges::any_of(facts.target.ops[reader].inputs, reads);
      if (visited[reader]) continue;
      visited[reader] = true;
      border.push_back(reader);
    }
    if (!is_read && is_decisive &&
        !reads_other_layouts(facts, t)) {  // an end that differs: the loss, a parameter, a gradient
      effect.lasts = true;
      return effect;
    }
  }
  effect.lasts = !can_be_undone;
  return effect;
}

}  // namespace sonde
