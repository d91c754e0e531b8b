// Judges the ops of one step in the order in which they ran: each error is reported once, at its origin.
#include "ask/compare/compare_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "ask/compare/compare_words.h"
#include "read/operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {

StepComparer::StepComparer(ComparedStep& step, std::size_t index, const CompareOptions& options, RankHistory& history,
                           const std::set<OpPair>& apart)
    : step_(step),
      index_(index),
      options_(options),
      target_(*step.target),
      golden_(*step.golden),
      differences_(*step.differences),
      history_(history),
      apart_(apart),
      seen_before_(history.seen),
      target_owner_(target_.ops.size(), kNone),
      golden_owner_(golden_.ops.size(), kNone),
      target_originals_(originals_of(target_)),
      golden_originals_(originals_of(golden_)) {}

void StepComparer::keep(Judged judged, const Group& target, const Group& golden) {
  const auto index = static_cast<std::uint32_t>(step_.ops.size());
  for (const std::uint32_t t : target) target_owner_[t] = index;
  for (const std::uint32_t g : golden) golden_owner_[g] = index;
  ComparedOp& op = step_.ops.emplace_back(std::move(judged.op));
  const bool had_findings = something_differs_;
  look_at_inputs(op, judged.inputs);
  look_at_order(op, judged.inputs);
  const bool is_quiet = seen_ == 0 && seen_before_ == 0 && !something_differs_ && suspect_ == nullptr;
  if (is_quiet && op.verdict == OpVerdict::identical && !numbers_apart(*op.target.back(), *op.golden.back()).empty()) {
    suspect_ = &op;
  }
  if (judged.finding) {
    const ComparedTensor& shown = op.outputs[judged.tensor];
    const bool inputs_explain_it = something_differs_ && !had_findings;
    const std::vector<std::string> apart = attributes_apart(*op.target.back(), *op.golden.back());
    if (judged.kind == FindingKind::op && shown.difference->equal && !apart.empty()) {  // visible in the call only
      judged.kind = FindingKind::number;
      op.reason = fmt::format("is called with {}", fmt::join(apart, "; "));
    } else {
      op.reason = difference_text(judged.kind, shown);
      for (const std::string& one : apart) op.reason += "; called with " + one;
    }
    if (op.target.back()->op_type != op.golden.back()->op_type && !op.golden.back()->op_type.empty()) {
      op.reason += fmt::format("; the golden op is {}", op.golden.back()->op_type);
    }
    if (inputs_explain_it) {
      op.verdict = OpVerdict::propagated;
    } else if (const CatalogOp* before = alone_before(judged.inputs, judged.kind == FindingKind::shape);
               before != nullptr) {
      add_finding(FindingKind::inserted, op, before, false, &shown,
                  fmt::format("has no counterpart in the golden dump, and {}, which reads it, differs: {}",
                              op.target.front()->op_name, op.reason));
    } else {
      add_finding(judged.kind, op, op.target.back(), false, &shown, op.reason);
    }
  }
  // An op that only passes elements on has no scale of its own: its inputs were counted.
  if (op.verdict == OpVerdict::propagated && op.kind <= OpKind::cast) return;
  if (std::isfinite(judged.relative)) seen_ = std::max(seen_, judged.relative);
  step_.largest_relative = std::max(step_.largest_relative, judged.relative);
}

void StepComparer::compare_op(std::uint32_t target) {
  if (target_owner_[target] != kNone) return;  // part of one before
  const OpMatch match = matches_[target];
  if (match.golden == kNoOp && keep_target_again(target)) return;
  if (match.golden != kNoOp) keep_golden_again(match.golden);
  if (match.golden == kNoOp || golden_owner_[match.golden] != kNone) {
    const bool is_left_out = other_optimizer_ && phase_of(*target_.ops[target].op) == Phase::optimizer;
    if (is_left_out || !find_fused(target)) keep_alone(target);
    return;
  }
  Judged judged = judge({target}, {match.golden}, match.how);
  if ((judged.finding || reads_foreign(judged)) && match.how != MatchedBy::mapping) {
    judged = judge_longer({target}, {match.golden}, std::move(judged));
  }
  const bool by_likeness = match.how == MatchedBy::order || match.how == MatchedBy::flow;
  if (by_likeness && (judged.finding || reads_another(judged))) {
    const std::uint32_t other = find_elsewhere(target, judged);
    if (other != kNoOp) {
      const auto promised = std::ranges::find(matches_, other, &OpMatch::golden);
      matches_[target].golden = other;
      matches_[target].by_order_alone = false;
      if (promised != matches_.end()) promised->golden = match.golden;
      if (promised == matches_.end()) promised_[match.golden] = false;
      promised_[other] = true;
    }
  }
  const Group left = ops_of(target_, judged.op.target, judged.op.target_index);
  const Group right = ops_of(golden_, judged.op.golden, judged.op.golden_index);
  keep(std::move(judged), left, right);
}

void StepComparer::keep_alone(std::uint32_t target) {
  // A golden op without a counterpart and with the same inputs may correspond to this one and its successors.
  for (const CompareInput& input : target_.ops[target].inputs) {
    if (input.from == kNoOp || target_owner_[input.from] == kNone) continue;
    const std::uint32_t theirs = step_.ops[target_owner_[input.from]].golden_index;
    if (theirs == kNoOp) continue;
    for (const std::uint32_t reader : golden_.ops[theirs].readers) {
      if (golden_owner_[reader] == kNone && !promised_[reader] && find_parts(reader)) return;
    }
  }
  target_owner_[target] = static_cast<std::uint32_t>(step_.ops.size());
  ComparedOp& op = step_.ops.emplace_back();
  op.target_index = target;
  op.target = {target_.ops[target].op};
  op.kind = target_.ops[target].kind;
  op.verdict = OpVerdict::unmatched;
  op.nearest = nearest_to(target_, target, golden_);
  op.reason = "no counterpart: " + op.nearest.why;
}

void StepComparer::want_all() {
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    const std::uint32_t g = matches_[t].golden;
    if (g == kNoOp) continue;
    for (const CatalogTensor* target : target_.ops[t].outputs) {
      for (const CatalogTensor* golden : golden_.ops[g].outputs) {
        if (target->slot != golden->slot || !same_elements(*target, *golden)) continue;
        differences_.want(of_target(target), of_golden(golden));
      }
    }
    if (shared_type(target_.ops[t].op->op_type) != shared_type(golden_.ops[g].op->op_type)) continue;
    for (const CompareInput& target : target_.ops[t].inputs) {
      for (const CompareInput& golden : golden_.ops[g].inputs) {
        if (target.tensor->slot != golden.tensor->slot || !same_elements(*target.tensor, *golden.tensor)) continue;
        if (!target.tensor->recorded() || !golden.tensor->recorded()) continue;
        differences_.want(of_target(target.tensor), of_golden(golden.tensor));
      }
    }
  }
  differences_.run();
}

void StepComparer::match() {
  const SameValues same_values = [&](const CatalogTensor& target, const CatalogTensor& golden) {
    if (!target.recorded() || !golden.recorded() || !same_elements(target, golden)) return false;
    const TensorDifference& found = differences_.of(of_target(&target), of_golden(&golden));
    return found.comparable() && found.equal;
  };
  matches_ = match_ops(*step_.target, *step_.golden, options_.names, same_values);
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    if (apart_.contains({t, matches_[t].golden})) matches_[t].golden = kNoOp;
  }
  leave_optimizers_out();
  promised_.assign(golden_.ops.size(), false);
  for (const OpMatch& match : matches_) {
    if (match.golden != kNoOp) promised_[match.golden] = true;
  }
}

// One op for all parameters, lists of them, or one after the other: no op of one belongs to one of the other.
void StepComparer::leave_optimizers_out() {
  struct Style {
    bool fused = false, lists = false, any = false;
  };
  const auto style_of = [](const CompareSide& side) {
    Style style;
    for (const CompareOp& op : side.ops) {
      if (phase_of(*op.op) != Phase::optimizer) continue;
      style.any = true;
      style.fused = style.fused || op.op->op_type.find("_fused_") != std::string_view::npos;
      style.lists = style.lists || (op.in_place && op.op->op_type.find("_foreach_") != std::string_view::npos);
    }
    style.lists = style.lists && !style.fused;
    return style;
  };
  const Style left = style_of(target_), right = style_of(golden_);
  other_optimizer_ = left.any && right.any && (left.fused != right.fused || left.lists != right.lists);
  if (!other_optimizer_) return;
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    if (phase_of(*target_.ops[t].op) == Phase::optimizer) matches_[t].golden = kNoOp;
  }
  step_.notes_of_both.push_back(
      "the optimizers update in different ways (fused, by lists, one by one): their results are compared where the "
      "next step reads them");
}

// By the products, most of which have another type if a whole run has; else by all results.
void StepComparer::find_precision() {
  std::size_t products = 0, other_products = 0, all = 0, other = 0;
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    if (matches_[t].golden == kNoOp) continue;
    const CompareOp &left = target_.ops[t], &right = golden_.ops[matches_[t].golden];
    if (left.outputs.empty() || right.outputs.empty()) continue;
    const DType mine = left.outputs[0]->dtype, theirs = right.outputs[0]->dtype;
    if (!is_floating(mine) || !is_floating(theirs)) continue;
    ++all;
    other += mine != theirs;
    products += left.kind == OpKind::contraction;
    other_products += left.kind == OpKind::contraction && mine != theirs;
  }
  other_precision_ = products > 1 ? 2 * other_products > products : 2 * other > all;
}

void StepComparer::keep_golden_alone() {
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    if (golden_owner_[g] != kNone) continue;
    golden_owner_[g] = static_cast<std::uint32_t>(step_.ops.size());
    ComparedOp& op = step_.ops.emplace_back();
    op.golden_index = g;
    op.golden = {golden_.ops[g].op};
    op.kind = golden_.ops[g].kind;
    op.verdict = OpVerdict::unmatched;
    op.nearest = nearest_to(golden_, g, target_);
    op.reason = "no counterpart: " + op.nearest.why;
  }
}

void StepComparer::run() {
  match();
  const auto name_all = [](const CompareSide& side, std::set<std::string_view>& names) {
    for (const CompareOp& op : side.ops) {
      for (const CompareInput& input : op.inputs) {
        if (input.from == kNoOp && !input.name.empty()) names.insert(input.name);
      }
    }
  };
  name_all(target_, target_names_);
  name_all(golden_, golden_names_);
  find_precision();
  want_all();
  for (std::uint32_t t = 0; t < target_.ops.size(); ++t) compare_op(t);
  keep_golden_alone();
}

void StepComparer::finish() {
  // The same values in another layout are found in the first step only: later they are updated, and rounded.
  if (!findings_.empty() && history_.layout == nullptr && !history_.step) {
    history_.layout = std::make_shared<const ParameterLayout>(target_, golden_, differences_);
  }
  look_at_units_in_another_order();
  leave_absorbed_out();
  leave_compensated_out();
  find_updates_left_out();
  leave_other_batches_out();
  leave_out_what_has_no_effect();
  blame_reordering();
  note_doubts();
  report_each_cause_once();
  name_suspects();
  find_lost_backward();
  find_not_finite_alone();
  find_jump();
  find_rounding_apart();
}

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
    const std::vector<OpPair> without_effect = comparer.without_effect();
    if (look < kMostLooks && !without_effect.empty()) {
      apart.insert(without_effect.begin(), without_effect.end());
      continue;
    }
    comparer.finish();
    comparer.remember(history);
    std::ranges::move(comparer.findings(), std::back_inserter(findings));
    return;
  }
}

}  // namespace sonde
