// Judges the ops of one step in the order in which they ran: each error is reported once, at its origin.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "ask/compare/doubts.h"
#include "ask/compare/input_checks.h"
#include "ask/compare/left_out.h"
#include "ask/compare/op_groups.h"
#include "ask/compare/recomputed_ops.h"
#include "read/operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

void want_all(const CompareFacts& facts) {
  for (std::uint32_t t = 0; t < facts.pairs.size(); ++t) {
    const std::uint32_t g = facts.pairs.match_of(t).golden;
    if (g == kNoOp) continue;
    for (const CatalogTensor* target : facts.target.ops[t].outputs) {
      for (const CatalogTensor* golden : facts.golden.ops[g].outputs) {
        if (target->slot != golden->slot || !same_elements(*target, *golden)) continue;
        facts.differences.want(facts.of_target(target), facts.of_golden(golden));
      }
    }
    if (shared_type(facts.target.ops[t].op->op_type) != shared_type(facts.golden.ops[g].op->op_type)) continue;
    for (const CompareInput& target : facts.target.ops[t].inputs) {
      for (const CompareInput& golden : facts.golden.ops[g].inputs) {
        if (target.tensor->slot != golden.tensor->slot || !same_elements(*target.tensor, *golden.tensor)) continue;
        if (!target.tensor->recorded() || !golden.tensor->recorded()) continue;
        facts.differences.want(facts.of_target(target.tensor), facts.of_golden(golden.tensor));
      }
    }
  }
  facts.differences.run();
}

// By the products, most of which have another type if a whole run has; else by all results.
bool have_other_precision(const ComparedStep& step, const OpPairs& pairs) {
  std::size_t products = 0, other_products = 0, all = 0, other = 0;
  for (std::uint32_t t = 0; t < pairs.size(); ++t) {
    if (pairs.match_of(t).golden == kNoOp) continue;
    const CompareOp &left = step.target->ops[t], &right = step.golden->ops[pairs.match_of(t).golden];
    if (left.outputs.empty() || right.outputs.empty()) continue;
    const DType mine = left.outputs[0]->dtype, theirs = right.outputs[0]->dtype;
    if (!is_floating(mine) || !is_floating(theirs)) continue;
    ++all;
    other += mine != theirs;
    products += left.kind == OpKind::contraction;
    other_products += left.kind == OpKind::contraction && mine != theirs;
  }
  return products > 1 ? 2 * other_products > products : 2 * other > all;
}

// One op that changes the input of many is one cause.
void report_each_cause_once(std::vector<CompareFinding>& findings) {
  std::set<std::pair<const CatalogOp*, FindingKind>> known;
  std::erase_if(findings, [&](const CompareFinding& finding) {
    const bool is_between = finding.kind == FindingKind::inserted || finding.kind == FindingKind::missing;
    return is_between && !known.emplace(finding.culprit, finding.kind).second;
  });
}

bool has_fractions(const ComparedTensor& tensor) {
  return is_floating(tensor.target->dtype) || is_complex(tensor.target->dtype);
}

// From outside the step, and nothing is known of its values, as of a sparse tensor: it may be what differs. Null: there is
// none.
const CatalogTensor* unknown_input(const Judged& judged) {
  const auto at = std::ranges::find_if(judged.inputs, [](const PairedInput& input) {
    const CompareInput& target = *input.target.input;
    return target.is_read && target.from == kNoOp && !target.tensor->constant && !target.tensor->recorded() &&
           target.tensor->has_shape && input.difference == nullptr;
  });
  return at == judged.inputs.end() ? nullptr : at->target.input->tensor;
}

class StepComparer {
 public:
  // `apart`: pairs that the first pass found not to belong together.
  StepComparer(ComparedStep& step, std::size_t index, const CompareOptions& options, RankHistory& history,
               const std::set<OpPair>& apart)
      : step_(step),
        target_(*step.target),
        golden_(*step.golden),
        history_(history),
        pairs_(step, options.names, apart),
        names_(target_, golden_),
        findings_(step, index, names_),
        seen_{history.seen, 0},
        facts_{target_, golden_, *step.differences,
               pairs_,  names_,  seen_,
               history, options, have_other_precision(step, pairs_)},
        judge_(facts_),
        groups_(facts_, judge_),
        target_originals_(originals_of(target_)),
        golden_originals_(originals_of(golden_)) {}

  void run();
  // After the last pass over the step.
  void finish();
  std::vector<CompareFinding>& findings() { return findings_.all(); }
  std::vector<OpPair> pairs_without_effect() { return without_effect(facts_, findings_.all()); }

 private:
  void compare_op(std::uint32_t target);
  void compare_alone(std::uint32_t target);
  bool compare_target_again(std::uint32_t target);
  void compare_golden_again(std::uint32_t golden);
  void keep(Judged judged);
  void look_at(ComparedOp& op, Judged& judged);
  void report(ComparedOp& op, const Judged& judged, bool inputs_explain_it);
  void remember();

  ComparedStep& step_;
  const CompareSide& target_;
  const CompareSide& golden_;
  RankHistory& history_;
  OpPairs pairs_;
  ParameterNames names_;
  StepFindings findings_;
  SeenErrors seen_;
  const CompareFacts facts_;
  OpJudge judge_;
  OpGroups groups_;
  Group target_originals_, golden_originals_;  // by op: the one that it runs again
  const ComparedOp* suspect_ = nullptr;        // the first op called with another number whose result is the same
};

void StepComparer::keep(Judged judged) {
  const Group target = ops_of(target_, judged.op.target, judged.op.target_index);
  const Group golden = ops_of(golden_, judged.op.golden, judged.op.golden_index);
  ComparedOp& op = pairs_.keep(std::move(judged.op), target, golden);
  look_at(op, judged);
}

void StepComparer::look_at(ComparedOp& op, Judged& judged) {
  const bool had_findings = !findings_.empty();
  check_inputs(facts_, findings_, op, judged.inputs);
  check_order(facts_, findings_, op, judged.inputs);
  const bool is_quiet = seen_.now == 0 && seen_.before == 0 && findings_.empty() && suspect_ == nullptr;
  if (is_quiet && op.verdict == OpVerdict::identical && !numbers_apart(*op.target.back(), *op.golden.back()).empty()) {
    suspect_ = &op;
  }
  if (judged.finding) report(op, judged, !findings_.empty() && !had_findings);
  // An op that only passes elements on has no scale of its own: its inputs were counted.
  if (op.verdict == OpVerdict::propagated && op.kind <= OpKind::cast) return;
  // A state of one parameter may be nothing but rounding, as that of a bias before a norm; no other parameter reads it.
  if (op.verdict == OpVerdict::propagated && phase_of(*op.target.front()) == Phase::optimizer) return;
  // Bytes of a pickled object, times and counters may be any: no error of a result follows from theirs.
  if (!op.outputs.empty() && std::ranges::none_of(op.outputs, has_fractions)) return;
  if (std::isfinite(judged.relative)) seen_.now = std::max(seen_.now, judged.relative);
  step_.largest_relative = std::max(step_.largest_relative, judged.relative);
}

void StepComparer::report(ComparedOp& op, const Judged& judged, bool inputs_explain_it) {
  const ComparedTensor& shown = op.outputs[judged.tensor];
  const std::vector<std::string> apart = attributes_apart(*op.target.back(), *op.golden.back());
  FindingKind kind = judged.kind;
  if (kind == FindingKind::op && shown.difference->equal && !apart.empty()) {  // visible in the call only
    kind = FindingKind::number;
    op.reason = fmt::format("is called with {}", fmt::join(apart, "; "));
  } else {
    op.reason = difference_text(kind, shown);
    for (const std::string& one : apart) op.reason += "; called with " + one;
  }
  if (op.target.back()->op_type != op.golden.back()->op_type && !op.golden.back()->op_type.empty()) {
    op.reason += fmt::format("; the golden op is {}", op.golden.back()->op_type);
  }
  if (inputs_explain_it) {
    op.verdict = OpVerdict::propagated;
    return;
  }
  const CatalogOp* before = alone_before(facts_, judged.inputs, kind == FindingKind::shape);
  if (before == nullptr) {
    CompareFinding& finding = findings_.add(kind, op, op.target.back(), false, &shown, op.reason);
    const CatalogTensor* unknown = kind == FindingKind::op ? unknown_input(judged) : nullptr;
    if (unknown == nullptr) return;
    finding.doubt(fmt::format("; or what it reads: nothing is known of input.{} ({})", unknown->slot,
                              unknown->parameter.or_if_empty("data")));
    return;
  }
  findings_.add(FindingKind::inserted, op, before, false, &shown,
                fmt::format("has no counterpart in the golden dump, and {}, which reads it, differs: {}",
                            op.target.front()->op_name, op.reason));
}

// The target runs this op again, and the golden dump does not.
bool StepComparer::compare_target_again(std::uint32_t target) {
  const std::uint32_t original = target_originals_[target];
  if (original == kNoOp || pairs_.of_target(original) == nullptr) return false;
  const ComparedOp& known = *pairs_.of_target(original);
  const std::uint32_t golden = known.golden_index;
  if (golden == kNoOp || known.target_index != original || pairs_.are_apart(target, golden)) return false;
  Judged judged = judge_.judge({target}, {golden}, MatchedBy::recomputation);
  look_at(pairs_.keep(std::move(judged.op), {target}, {}), judged);
  return true;
}

// The golden dump runs ops again that this golden op reads, and the target does not.
void StepComparer::compare_golden_again(std::uint32_t golden) {
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    const std::uint32_t again = input.from;
    if (again == kNoOp || !pairs_.is_free_golden(again)) continue;
    const std::uint32_t original = golden_originals_[again];
    if (original == kNoOp || pairs_.of_golden(original) == nullptr) continue;
    const ComparedOp& known = *pairs_.of_golden(original);
    const std::uint32_t target = known.target_index;
    if (target == kNoOp || known.golden_index != original || pairs_.are_apart(target, again)) continue;
    compare_golden_again(again);
    Judged judged = judge_.judge({target}, {again}, MatchedBy::recomputation);
    look_at(pairs_.keep(std::move(judged.op), {}, {again}), judged);
  }
}

void StepComparer::compare_op(std::uint32_t target) {
  if (pairs_.of_target(target) != nullptr) return;  // part of one before
  if (pairs_.is_inside_block(target)) return;       // its end is compared
  if (const OpBlock* block = pairs_.block_at(target)) {
    return keep(judge_.judge(block->target, block->golden, MatchedBy::flow));
  }
  const OpMatch match = pairs_.match_of(target);
  if (match.golden == kNoOp && compare_target_again(target)) return;
  if (match.golden != kNoOp) compare_golden_again(match.golden);
  if (match.golden == kNoOp || pairs_.of_golden(match.golden) != nullptr) return compare_alone(target);
  Judged judged = judge_.judge({target}, {match.golden}, match.how);
  if ((judged.finding || reads_foreign(facts_, judged)) && match.how != MatchedBy::mapping) {
    judged = groups_.longer(target, match.golden, std::move(judged));
  }
  if (is_guess(match.how) && (judged.finding || reads_another(judged))) {
    if (std::optional<Judged> other = groups_.elsewhere(target, judged.op.golden_index)) {
      judged = std::move(*other);
      pairs_.exchange(target, judged.op.golden_index);
    }
  }
  keep(std::move(judged));
}

void StepComparer::compare_alone(std::uint32_t target) {
  const bool is_left_out = pairs_.have_other_optimizers() && phase_of(*target_.ops[target].op) == Phase::optimizer;
  if (is_left_out) return pairs_.keep_alone(target);
  std::optional<Judged> judged = groups_.fused(target);
  if (!judged) judged = groups_.part_of(target);
  if (judged) return keep(std::move(*judged));
  pairs_.keep_alone(target);
}

void StepComparer::run() {
  want_all(facts_);
  for (std::uint32_t t = 0; t < target_.ops.size(); ++t) compare_op(t);
  pairs_.keep_alone_in_golden();
}

void StepComparer::finish() {
  // The same values in another layout are found in the first step only: later they are updated, and rounded.
  if (!findings_.empty() && history_.layout == nullptr && !history_.step) {
    history_.layout = std::make_shared<const ParameterLayout>(target_, golden_, *step_.differences);
  }
  look_at_units_in_another_order(facts_, findings_);
  leave_absorbed_out(facts_, findings_);
  leave_compensated_out(facts_, findings_);
  find_updates_left_out(facts_, findings_);
  const bool have_other_batches = leave_other_batches_out(facts_, findings_);
  if (leave_out_what_has_no_effect(facts_, findings_)) seen_.now = std::min(seen_.now, kLargeError);
  blame_reordering(facts_, findings_);
  note_doubts(facts_, findings_);
  report_each_cause_once(findings_.all());
  name_suspects(facts_, findings_, suspect_);
  find_lost_backward(facts_, findings_);
  explain_gradients(facts_, findings_);
  find_not_finite_alone(facts_, findings_);
  if (!have_other_batches) find_jump(facts_, findings_);
  find_states_apart(facts_, findings_);
  find_rounding_apart(facts_, findings_);
  settle_by_sources(facts_, findings_);
  remember();
}

void StepComparer::remember() {
  history_.seen = std::max(history_.seen, seen_.now);
  history_.step = target_.step->id.number;
  history_.other_optimizer = pairs_.have_other_optimizers();
  history_.found = history_.found || !findings_.empty();
  for (const CompareOp& op : golden_.ops) {
    for (const CompareInput& input : op.inputs) {
      if (input.from != kNoOp || !input.tensor->parameter.is_parameter()) continue;
      history_.read.emplace(input.tensor->parameter);
      RankHistory::State& state = history_.states[std::string(input.tensor->parameter)];
      state.golden = input.tensor;
      state.rank = golden_.rank;
      state.judged = false;
    }
  }
  const auto is_measured = [](const TensorDifference& difference) {
    return difference.by == ComparedBy::values || difference.by == ComparedBy::statistics;
  };
  const auto measure = [&](std::string_view name, const TensorDifference& difference, std::uint64_t writer) {
    const auto state = history_.states.find(name);
    if (state == history_.states.end() || !difference.comparable()) return;
    state->second.apart = {difference.rms_error, difference.max_error};
    state->second.judged = is_measured(difference);
    state->second.writer = writer;
  };
  history_.made.clear();
  history_.made_alone.clear();
  for (const ComparedOp& op : pairs_.ops()) {
    const bool is_golden_alone = op.target.empty() && !op.golden.empty() && op.verdict == OpVerdict::unmatched;
    if (is_golden_alone && phase_of(*op.golden.back()) != Phase::optimizer)
      history_.made_alone.insert(op.golden.back()->sequence);
    for (const ComparedTensor& input : op.inputs) {
      const std::string_view name = input.golden == nullptr ? TensorName() : input.golden->parameter;
      const bool is_of_before = input.target->source == kNoSequence;
      if (is_of_before && !name.empty() && !golden_.written.contains(name) && !target_.written.contains(name)) {
        measure(name, *input.difference, kNoSequence);
      }
    }
    if (op.target.empty() || op.golden.empty()) continue;
    for (const ComparedTensor& output : op.outputs) {
      const CompareOp& writer = golden_.ops[op.golden_index];
      const TensorDifference& difference = *output.difference;
      if (difference.comparable() && is_measured(difference) && output.golden != nullptr) {
        history_.made.push_back(
            {{writer.op->sequence, output.golden->slot}, {difference.rms_error, difference.max_error}});
      }
      for (std::size_t i = 0; i < writer.outputs.size(); ++i) {
        if (writer.outputs[i] != output.golden || writer.states[i].empty()) continue;
        const auto last = golden_.written.find(writer.states[i]);
        if (last->second.output == output.golden) measure(writer.states[i], difference, writer.op->sequence);
      }
    }
  }
  std::ranges::sort(history_.made, {}, &RankHistory::Made::by);
}

}  // namespace

const ComparedTensor* ComparedOp::worst_output() const {
  const ComparedTensor* worst = nullptr;
  double most = -1;
  for (const ComparedTensor& output : outputs) {
    const double relative = output.difference->relative();
    const double share = output.beyond ? 1e300 : relative;
    if (share > most) {
      most = share;
      worst = &output;
    }
  }
  return worst;
}

void compare_step(ComparedStep& step, std::size_t index, const CompareOptions& options, RankHistory& history,
                  std::vector<CompareFinding>& findings) {
  const std::uint64_t number = step.target->step->id.number;
  if (history.step && number != *history.step + 1) history.states.clear();
  constexpr int kMostLooks = 6;
  std::set<OpPair> apart;
  for (int look = 1;; ++look) {
    step.ops.clear();
    step.notes.clear();
    step.notes_of_both.clear();
    step.largest_relative = 0;
    StepComparer comparer(step, index, options, history, apart);
    comparer.run();
    const std::vector<OpPair> without_effect = comparer.pairs_without_effect();
    if (look < kMostLooks && !without_effect.empty()) {
      apart.insert(without_effect.begin(), without_effect.end());
      continue;
    }
    comparer.finish();
    std::ranges::move(comparer.findings(), std::back_inserter(findings));
    return;
  }
}

}  // namespace sonde
