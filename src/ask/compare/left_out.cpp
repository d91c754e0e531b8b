#include "ask/compare/left_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ask/compare/compare_words.h"
#include "ask/compare/doubts.h"
#include "ask/compare/effects.h"
#include "ask/compare/step_ends.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

// NaN of one side alone is wrong, whoever drops it later. Infinities may be a mask in another form.
bool has_nan_alone(const CompareFinding& finding) {
  if (finding.kind != FindingKind::non_finite || finding.tensor == nullptr) return false;
  const TensorDifference& difference = *finding.tensor->difference;
  if (difference.by == ComparedBy::values)
    return difference.sums.non_finite.nan != difference.sums.golden_non_finite.nan;
  return difference.statistics.nan_count.value_or(1) != difference.golden_statistics.nan_count.value_or(0);
}

// The op of the same name reads the same and is called with other arguments: the two programs ask for something else.
bool is_called_otherwise(const CompareFinding& finding) {
  const ComparedOp& op = *finding.op;
  if (finding.kind != FindingKind::op || op.how != MatchedBy::name || op.inputs.empty()) return false;
  if (op.target.size() != 1 || op.golden.size() != 1) return false;
  const bool reads_the_same =
      std::ranges::all_of(op.inputs, [](const ComparedTensor& input) { return input.difference->equal; });
  return reads_the_same && !choices_apart(*op.target.front(), *op.golden.front()).empty();
}

// Ops that were paired by their likeness, and an error below the spacing of the type.
bool is_rounding_of_a_guess(const CompareFinding& finding) {
  const ComparedOp& op = *finding.op;
  if (finding.kind != FindingKind::op || finding.tensor == nullptr || !is_guess(op.how)) return false;
  const TensorDifference& difference = *finding.tensor->difference;
  const double spacing = coarser_spacing(difference);
  return difference.different_non_finite == 0 && difference.rms_error <= spacing * difference.rms;
}

// A norm in training writes its running statistics, and computes nothing from them.
bool reads_values_of(const ComparedOp& op, const ComparedTensor& input) {
  return input.target->slot < 3 || !normalises_by_batch(*op.target.front());
}

// Of the ops of the step, none computes something from it.
bool is_unread(const CompareFacts& facts, std::string_view name) {
  for (const ComparedOp& op : facts.pairs.ops()) {
    if (op.target.empty()) continue;
    for (const ComparedTensor& input : op.inputs) {
      if (input.target->parameter == name && reads_values_of(op, input)) return false;
    }
  }
  return true;
}

// Every op that reads it reads something else that differs, too, and gives the same: the differences cancel.
bool is_compensated(const CompareFacts& facts, std::string_view name) {
  constexpr double kLarge = 1e-3;
  bool any = false;
  for (const ComparedOp& op : facts.pairs.ops()) {
    const auto differs = [&](const ComparedTensor& input) {
      return !input.difference->comparable() || input.difference->relative() > kLarge;
    };
    const bool reads = std::ranges::any_of(op.inputs, [&](const ComparedTensor& input) {
      return input.target->parameter == name && !input.difference->equal;
    });
    if (!reads) continue;
    any = true;
    const bool computes =
        op.kind == OpKind::contraction || op.kind == OpKind::elementwise || op.kind == OpKind::normalization;
    if (!computes || std::ranges::count_if(op.inputs, differs) < 2 || op.outputs.empty()) return false;
    const bool agrees = std::ranges::all_of(op.outputs, [&](const ComparedTensor& output) {
      const TensorDifference& difference = *output.difference;
      const double spacing = coarser_spacing(difference);
      return is_comparable(output) && difference.different_non_finite == 0 &&
             difference.relative() <= std::min(kEndRounding * spacing, kLarge);
    });
    if (!agrees) return false;
  }
  return any;
}

// The largest relative error at the op that shows it; 1 where tensors cannot be compared. A parameter that differs must
// have an effect at its reader: if it has none, other values of it may.
double size_of_error(const CompareFinding& finding) {
  const ComparedOp& op = *finding.op;
  if (op.target.size() != 1 || op.golden.size() != 1 || op.outputs.empty()) return 1;
  double largest = 0;
  const auto add = [&](const ComparedTensor& tensor) {
    const TensorDifference& difference = *tensor.difference;
    const bool is_far = !difference.comparable() || difference.different_non_finite > 0;
    largest = std::max(largest, is_far ? 1 : difference.relative());
  };
  std::ranges::for_each(op.outputs, add);
  if (finding.kind != FindingKind::parameter) std::ranges::for_each(op.inputs, add);
  return largest;
}

// The ends of a step in a half type agree within several per cent. That does not excuse an op that one side computes in
// addition, if the other has nothing in its place and its effect is seen up to the end.
bool is_mere_addition(const CompareFacts& facts, const CompareFinding& finding) {
  const bool is_alone = finding.kind == FindingKind::inserted || finding.kind == FindingKind::missing;
  if (!is_alone || finding.tensor == nullptr || moves_or_casts(kind_of(finding.culprit->op_type))) return false;
  // Where the two cut their work in other pieces, each has ops that the other lacks.
  const auto has_shape = [](const ComparedTensor& output) { return output.difference->same_shape; };
  if (!std::ranges::all_of(finding.op->outputs, has_shape)) return false;
  return is_half(coarser_spacing(*finding.tensor->difference)) && is_one_side_longer(facts, finding.in_golden) &&
         effect_of(facts, finding).stays();
}

// It writes into memory from which the step computes nothing more: the effect is in a later step. Views and copies of it,
// and what writes over a part, do not count. What a rank receives is its sender's.
bool is_for_later(const CompareSide& side, std::uint32_t at) {
  if (!side.ops[at].in_place || nature_of(*side.ops[at].op).collective) return false;
  std::vector<std::uint32_t> open = {at};
  for (std::size_t done = 0; done < open.size(); ++done) {
    for (const std::uint32_t reader : side.ops[open[done]].readers) {
      const CompareOp& op = side.ops[reader];
      const bool reads = std::ranges::any_of(
          op.inputs, [&](const CompareInput& input) { return input.from == open[done] && input.is_read; });
      if (!reads) continue;
      if (!nature_of(op.op->op_type).only_moves) return false;
      if (std::ranges::find(open, reader) == open.end()) open.push_back(reader);
    }
  }
  return true;
}

}  // namespace

void note_layouts(const CompareFacts& facts, StepFindings& findings) {
  findings.note_of_both(
      fmt::format("{}: the golden values in another layout (transposed, in another order, stacked, or cut)",
                  facts.history.layout->names_text()));
}

void leave_absorbed_out(const CompareFacts& facts, StepFindings& findings) {
  std::vector<std::string> names, relaid;
  std::set<const CompareFinding*> absorbed;
  for (const CompareFinding& finding : findings.all()) {
    const ComparedOp& op = *finding.op;
    if (op.target.empty() || op.golden.empty()) continue;
    const bool lacks_parameters = finding.kind == FindingKind::op && reads_other_parameters(facts, op);
    if (finding.kind != FindingKind::parameter && !lacks_parameters) continue;
    // An earlier step read it, and another optimizer has written it since: nothing was merged into it.
    const bool is_updated = finding.kind == FindingKind::parameter && facts.history.other_optimizer &&
                            facts.history.states.contains(finding.tensor->target->parameter);
    if (is_updated) continue;
    const LaterEffect effect = effect_of(facts, finding);
    const bool is_relaid = is_in_another_layout(facts, finding);
    if (effect.stays() || (!effect.built_otherwise && !is_relaid)) continue;
    absorbed.insert(&finding);
    if (finding.kind != FindingKind::parameter) continue;
    (is_relaid ? relaid : names).emplace_back(finding.tensor->target->parameter);
  }
  findings.leave_out(absorbed);
  if (!relaid.empty()) note_layouts(facts, findings);
  if (names.empty()) return;
  const std::string more = names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "";
  findings.note_of_both(
      fmt::format("{}{}: other values than the golden ones, but the results agree; the weights contain what the golden "
                  "run computes beside them (a merged adapter, a folded norm)",
                  names.front(), more));
}

void leave_compensated_out(const CompareFacts& facts, StepFindings& findings) {
  std::set<const CompareFinding*> compensated;
  std::string names, unread;
  for (const CompareFinding& finding : findings.all()) {
    const bool is_outside = finding.kind == FindingKind::parameter || finding.kind == FindingKind::data;
    if (!is_outside || finding.tensor == nullptr || finding.tensor->target->parameter.empty()) continue;
    const std::string_view name = finding.tensor->target->parameter;
    const bool not_read = is_unread(facts, name);
    if (!not_read && !is_compensated(facts, name)) continue;
    compensated.insert(&finding);
    std::string& list = not_read ? unread : names;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  findings.leave_out(compensated);
  if (!unread.empty()) {
    findings.note_of_both(fmt::format(
        "{}: other values than the golden ones; a norm in training writes them and computes nothing from them",
        unread));
  }
  if (names.empty()) return;
  findings.note_of_both(fmt::format(
      "{}: other values than the golden ones, but their differences cancel: what is computed from them agrees", names));
}

namespace {

// Whatever follows from it. Of a pair that rests on the order alone, another way to the same may read the other output.
bool stays_without_effect(const CompareFacts& facts, const CompareFinding& finding) {
  return finding.certain &&
         (finding.op->target_index == kNoOp || !facts.pairs.match_of(finding.op->target_index).by_order_alone);
}

}  // namespace

std::vector<OpPair> without_effect(const CompareFacts& facts, const std::vector<CompareFinding>& findings) {
  constexpr std::size_t kMostFollowed = 64;  // the first are those that count
  std::vector<OpPair> pairs;
  for (std::size_t i = 0; i < std::min(findings.size(), kMostFollowed); ++i) {
    const CompareFinding& finding = findings[i];
    const bool by_place = finding.kind == FindingKind::wiring || finding.kind == FindingKind::inserted ||
                          finding.kind == FindingKind::missing || finding.kind == FindingKind::shape ||
                          finding.kind == FindingKind::op;
    const ComparedOp& op = *finding.op;
    const bool is_parameter = finding.kind == FindingKind::shape && finding.tensor->target->is_input;
    if (!by_place || is_parameter || op.target.empty() || op.golden.empty() || op.how == MatchedBy::mapping) continue;
    if (op.how == MatchedBy::recomputation) continue;
    const bool is_block = op.target.size() != op.golden.size();
    if (finding.kind == FindingKind::op && !is_block && !facts.pairs.is_doubtful(op)) continue;
    if (stays_without_effect(facts, finding) || is_for_later(facts.target, op.target_index)) continue;
    if (!effect_of(facts, finding).stays()) pairs.emplace_back(op.target_index, op.golden_index);
  }
  return pairs;
}

bool leave_out_what_has_no_effect(const CompareFacts& facts, StepFindings& findings) {
  if (findings.empty() || !facts.target.has_flow || !facts.golden.has_flow) return false;
  // Or what the program does to a state before: only the update shows it.
  const auto of_optimizer = [&](const CompareFinding& finding) {
    const std::vector<const CatalogOp*>& readers = finding.op->target;
    return (finding.culprit != nullptr && phase_of(*finding.culprit) == Phase::optimizer) ||
           std::ranges::any_of(readers, [](const CatalogOp* op) { return phase_of(*op) == Phase::optimizer; });
  };
  StepEnds ends(facts);
  std::optional<bool> agree, updates_agree;
  const auto has_none = [&](const CompareFinding& finding) {
    // A pair that proves nothing, however small its error is.
    const bool is_guess = rests_on_order(facts, finding) || is_rounding_of_a_guess(finding);
    if (stays_without_effect(facts, finding) || has_nan_alone(finding) || (is_called_otherwise(finding) && !is_guess) ||
        finding.kind == FindingKind::changed || finding.kind == FindingKind::type)
      return false;
    if (finding.op->how == MatchedBy::mapping || is_mere_addition(facts, finding)) return false;
    if (finding.op->target_index != kNoOp && is_for_later(facts.target, finding.op->target_index)) return false;
    if (!is_guess && !is_in_another_layout(facts, finding) && size_of_error(finding) < kLargeError) return false;
    if (!agree) agree = ends.results_and_gradients_agree();
    if (!*agree) return false;
    if (!of_optimizer(finding)) return true;
    // A state has the shape of its parameter.
    const bool is_relaid = !finding.op->target.empty() && reads_other_layouts(facts, finding.op->target_index);
    if (finding.kind == FindingKind::shape && is_relaid) return true;
    if (!updates_agree) updates_agree = ends.updates_agree();
    return *updates_agree;
  };
  for (CompareFinding& finding : findings.all()) {
    if (finding.uncertain || !is_called_otherwise(finding)) continue;
    if (!agree) agree = ends.results_and_gradients_agree();
    if (!*agree) break;
    if (of_optimizer(finding)) continue;
    finding.uncertain = true;
    finding.what += "; what the step leaves agrees: another op seems to make up for it";
  }
  bool any_relaid = false;
  std::erase_if(findings.all(), [&](const CompareFinding& finding) {
    if (!has_none(finding)) return false;
    const_cast<ComparedOp*>(finding.op)->verdict = OpVerdict::propagated;
    any_relaid = any_relaid || is_in_another_layout(facts, finding);
    return true;
  });
  if (any_relaid) note_layouts(facts, findings);
  if (!findings.empty()) return false;
  findings.note_of_both(std::string(kSameInOtherWays));
  return true;
}

}  // namespace sonde
