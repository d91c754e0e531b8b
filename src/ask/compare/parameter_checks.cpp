#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ask/compare/compare_words.h"
#include "ask/compare/input_checks.h"
#include "ask/compare/left_out.h"
#include "read/operators/op_nature.h"
#include "sonde/tensor.h"

namespace sonde {
namespace {

// The golden tensor whose values the target's has.
struct Held {
  std::string text;         // for people; empty: none
  bool is_another = false;  // another parameter
};

Held what_it_holds(const CompareFacts& facts, const CatalogTensor& target, const CatalogTensor& golden,
                   const TensorDifference& difference) {
  if (difference.shape.size() == 2 && difference.shape == difference.golden_shape) {
    const TensorDifference turned =
        difference_along(facts.of_target(&target), facts.of_golden(&golden), {1, 0}, in_order);
    if (turned.by == ComparedBy::values && turned.different_non_finite == 0 && turned.relative() < kMaxExplainable) {
      return {"it is the golden one transposed"};
    }
  }
  std::set<std::string_view> tried;
  for (const CompareOp& op : facts.golden.ops) {
    for (const CompareInput& input : op.inputs) {
      const CatalogTensor& other = *input.tensor;
      if (input.from != kNoOp || &other == &golden || other.parameter.empty() || other.file.empty()) continue;
      if (other.parameter == golden.parameter || !same_elements(target, other)) continue;
      if (!tried.insert(other.parameter).second) continue;
      if (tried.size() > kMostPairCandidates) return {};
      const TensorDifference& found = facts.difference(&target, &other);
      const bool is_same = found.comparable() && found.by == ComparedBy::values && found.different_non_finite == 0;
      if (!is_same || found.relative() >= 1e-6) continue;
      const std::string axes = found.axes.empty() ? "" : ", " + axes_text(found);
      return {fmt::format("it has the values of the golden {}{}", other.parameter, axes), true};
    }
  }
  return {};
}

// How far apart an earlier step left it; nothing: that was not measured.
std::optional<Bound> apart_before(const RankHistory& history, const CatalogTensor& golden) {
  const std::pair<std::uint64_t, std::uint32_t> by(golden.source, golden.source_slot);
  const auto made = std::ranges::lower_bound(history.made, by, {}, &RankHistory::Made::by);
  const bool is_known = made != history.made.end() && made->by == by;
  if (is_known && golden.source != kNoSequence && golden.parameter.is_parameter()) return made->apart;
  const auto left = history.states.find(golden.parameter);
  if (golden.parameter.empty() || left == history.states.end() || !left->second.judged) return std::nullopt;
  // Another op wrote it since: a norm in training changes its running mean, and does not return it.
  if (golden.source != kNoSequence && golden.source != left->second.writer) return std::nullopt;
  return left->second.apart;
}

// It is read for the first time, and an op wrote it that the target lacks: weights that one of the two loaded. No error of
// an earlier result explains that they differ.
bool is_written_alone(const RankHistory& history, const CatalogTensor& golden) {
  return golden.parameter.is_parameter() && !history.read.contains(golden.parameter) &&
         history.made_alone.contains(golden.source);
}

// State left by an earlier step is as far apart as it was then.
Bound bound_of_parameter(const CompareFacts& facts, const CatalogTensor& golden, const TensorDifference& difference,
                         bool known) {
  double seen = known ? facts.seen.before : std::max(facts.seen.now, facts.seen.before);
  if (is_written_alone(facts.history, golden)) seen = std::min(seen, kLargeError);
  const std::optional<Bound> apart =
      difference.by == ComparedBy::checksum ? std::nullopt : apart_before(facts.history, golden);
  Bound bound = allowance_of_parameter(difference, apart ? 0 : seen, facts.options.tolerance);
  if (apart) {
    bound.rms += 1.01 * apart->rms;
    bound.max += 1.01 * apart->max;
  }
  const auto left = facts.history.states.find(golden.parameter);
  const bool is_state =
      !golden.parameter.empty() && left != facts.history.states.end() && left->second.golden != nullptr;
  if (is_state && facts.history.other_optimizer && difference.by != ComparedBy::checksum) {
    // The sign of a tiny gradient decides the direction of an element's full step.
    const RankHistory::State& state = left->second;
    const TensorDifference& update = facts.differences.of(facts.of_golden(&golden), {state.rank, state.golden});
    const double share = update.by == ComparedBy::values ? kUnseenOfUpdate : 1;
    bound.rms += share * update.rms_error;
    bound.max += 2.5 * update.max_error;
  }
  return bound;
}

// The same but for dimensions of one element: an op that broadcasts may give something else.
bool has_other_dimensions_of_one(const Dims& target, const Dims& golden) {
  const auto others = [](const Dims& shape) {
    std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    std::erase(sizes, 1);
    return sizes;
  };
  return target != golden && others(target) == others(golden);
}

// The tensor with other dimensions of one element that gives what an op broadcasts another shape; null: it is not so.
const CompareInput* broadcast_by(const CompareFacts& facts, const PairedInput& input, const CompareInput*& golden) {
  const std::uint32_t mine = input.target.input->from, theirs = input.golden.input->from;
  if (mine == kNoOp || theirs == kNoOp) return nullptr;
  const CompareOp &maker = facts.target.ops[mine], &golden_maker = facts.golden.ops[theirs];
  if (maker.op->op_type != golden_maker.op->op_type) return nullptr;
  for (std::size_t i = 0; i < std::min(maker.inputs.size(), golden_maker.inputs.size()); ++i) {
    const CatalogTensor &one = *maker.inputs[i].tensor, &other = *golden_maker.inputs[i].tensor;
    if (!one.has_shape || !other.has_shape || !has_other_dimensions_of_one(one.shape, other.shape)) continue;
    golden = &golden_maker.inputs[i];
    return &maker.inputs[i];
  }
  return nullptr;
}

// Its results cannot be compared: most often another batch.
void report_other_size(StepFindings& findings, const ComparedOp& op, const PairedInput& input) {
  const TensorDifference& difference = *input.difference;
  findings.note(fmt::format(
      "{} reads {} of shape {}, the golden op {}: later results are not compared; run both with the same batches",
      op.target.front()->op_name, input.target.input->tensor->parameter.or_if_empty("data"),
      shape_text(difference.shape, '(', ')'), shape_text(difference.golden_shape, '(', ')')));
}

}  // namespace

void check_parameter(const CompareFacts& facts, StepFindings& findings, ComparedOp& op, const PairedInput& input,
                     ComparedTensor& shown) {
  const CatalogTensor& target = *input.target.input->tensor;
  const CatalogTensor& golden = *input.golden.input->tensor;
  // Without data flow it may come from an earlier op.
  const bool known = !target.parameter.empty() || (facts.target.has_flow && facts.golden.has_flow);
  if (!known && !findings.empty()) return;
  const bool one_source = facts.pairs.same_producer(*input.target.input, *input.golden.input);
  if (facts.golden.has_flow && input.golden.input->from != kNoOp && !one_source)
    return check_wiring(facts, findings, op, input, shown);
  const bool is_data = !target.parameter.is_parameter();
  if (!input.difference->same_shape) {
    const bool is_new = findings.is_new_name(target.parameter);
    const CompareInput *theirs = input.golden.input, *read = input.target.input;
    if (is_data && !has_other_dimensions_of_one(input.difference->shape, input.difference->golden_shape))
      read = broadcast_by(facts, input, theirs);
    if (is_data && read == nullptr && is_new) report_other_size(findings, op, input);
    if (is_data && read != nullptr && is_new && (read == input.target.input || findings.is_new_name(read->name))) {
      shown.beyond = true;
      findings.add(FindingKind::shape, op, op.target.front(), false, &shown,
                   fmt::format("reads {} of shape {}, the golden op {}",
                               read->tensor->parameter.or_if_empty(fmt::format("input.{}", read->tensor->slot)),
                               shape_text(read->tensor->shape, '(', ')'), shape_text(theirs->tensor->shape, '(', ')')));
    }
    if (!is_data && is_new && input.target.input->name == input.golden.input->name) {
      shown.beyond = true;
      findings.add(FindingKind::shape, op, op.target.front(), false, &shown,
                   difference_text(FindingKind::shape, shown));
    }
    return;
  }
  if (!is_beyond(*input.difference, bound_of_parameter(facts, golden, *input.difference, known))) return;
  // An error made by an op of this step is also passed on in place.
  if (!known && facts.seen.now >= kMaxExplainable) return;
  shown.beyond = true;
  const bool is_new_name = target.parameter.empty() || findings.is_new_name(target.parameter);
  const bool is_new_content = target.content == 0 || findings.is_new_content(target.content);
  if (!is_new_name || !is_new_content) return;
  if (target.constant && golden.constant) {  // a number of the program: the call is another one
    if (op.target.front()->op_type != op.golden.front()->op_type) return;
    findings.add(FindingKind::number, op, op.target.front(), false, &shown,
                 fmt::format("is called with {:.9g}, golden {:.9g} (input.{})", *target.constant, *golden.constant,
                             target.slot));
    return;
  }
  const std::string_view mine = input.target.input->name, theirs = input.golden.input->name;
  // Updates are numbered as the program lists its parameters: of two that share no name, the pair says nothing.
  const bool is_update = phase_of(*op.target.front()) == Phase::optimizer;
  if (is_update && !mine.empty() && !theirs.empty() && mine != theirs && !facts.names.in_golden(mine)) return;
  const bool other =
      !mine.empty() && !theirs.empty() && mine != theirs && op.target.back()->op_name == op.golden.back()->op_name;
  if (other) {
    findings.add(FindingKind::wiring, op, op.target.front(), false, &shown,
                 fmt::format("reads {}, the golden op reads {}", target.parameter, golden.parameter));
    return;
  }
  const Held holds = what_it_holds(facts, target, golden, *input.difference);
  // If the other framework uses another name and the counterpart was guessed, the guess was wrong.
  if (is_guess(op.how) && !holds.text.empty() && !target.parameter.empty() && !facts.names.in_golden(mine)) {
    shown.note = holds.text;
    return;
  }
  const FindingKind kind = is_data ? FindingKind::data : FindingKind::parameter;
  const std::string numbers = difference_text(kind, shown);
  const std::string what = holds.text.empty() ? numbers : holds.text + " (" + numbers + ")";
  findings.add(kind, op, op.target.front(), false, &shown, what).exchanged = !is_data && holds.is_another;
}

}  // namespace sonde
