// The later effects of a difference; and differences that are not visible themselves but explain others.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ask/compare/compare_step.h"
#include "ask/compare/compare_words.h"
#include "ask/compare/step_ends.h"
#include "ground/model/data_name.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// An error of this size has vanished: `source` is the error at its origin.
bool is_healed(const ComparedTensor& tensor, double source, bool one_precision) {
  const TensorDifference& difference = *tensor.difference;
  if (difference.equal) return true;
  // A coarser type of one side alone hides what it has rounded away.
  const double mine = epsilon_of(difference.dtype), theirs = epsilon_of(difference.golden_dtype);
  const double rounding = 8 * (one_precision ? std::min(mine, theirs) : std::max(mine, theirs));
  return difference.different_non_finite == 0 &&
         difference.relative() <= std::max(rounding, 1e-4 * std::min(source, 1.0));
}

bool is_comparable(const ComparedTensor& tensor) {
  const TensorDifference& difference = *tensor.difference;
  return difference.comparable() && (difference.equal || difference.by != ComparedBy::checksum);
}

Health health_of_outputs(const CompareOp& op, HealthReader& reader) {
  Health all;
  for (const CatalogTensor* output : op.outputs) all.add(reader.of(*output));
  return all;
}

Health health_of_inputs(const CompareOp& op, HealthReader& reader) {
  Health all;
  for (const CompareInput& input : op.inputs) {
    if (input.is_read && input.tensor->recorded()) all.add(reader.of(*input.tensor));
  }
  return all;
}

// NaN of one side alone is wrong, whoever drops it later. Infinities may be a mask in another form.
bool has_nan_alone(const CompareFinding& finding) {
  if (finding.kind != FindingKind::non_finite || finding.tensor == nullptr) return false;
  const TensorDifference& difference = *finding.tensor->difference;
  if (difference.by == ComparedBy::values) return difference.sums.nan_count != difference.sums.golden_nan_count;
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
  const bool is_by_likeness = op.how == MatchedBy::order || op.how == MatchedBy::flow;
  if (finding.kind != FindingKind::op || finding.tensor == nullptr || !is_by_likeness) return false;
  const TensorDifference& difference = *finding.tensor->difference;
  const double spacing = coarser_spacing(difference);
  return difference.different_non_finite == 0 && difference.rms_error <= spacing * difference.rms;
}

}  // namespace

bool StepComparer::is_in_another_layout(std::string_view parameter) const {
  return history_.layout != nullptr && history_.layout->holds(parameter);
}

bool StepComparer::is_in_another_layout(const CompareFinding& finding) const {
  if (finding.kind != FindingKind::parameter || finding.tensor == nullptr) return false;
  const auto& inputs = target_.ops[finding.op->target_index].inputs;
  return std::ranges::any_of(inputs, [&](const CompareInput& input) {
    return input.tensor == finding.tensor->target && is_in_another_layout(input.name);
  });
}

// It updates a parameter that the other side keeps in another layout: what it reads and leaves differs.
bool StepComparer::reads_other_layouts(std::uint32_t optimizer_op) const {
  const CompareOp& op = target_.ops[optimizer_op];
  if (phase_of(*op.op) != Phase::optimizer || history_.layout == nullptr) return false;
  return std::ranges::any_of(
      op.inputs, [&](const CompareInput& input) { return history_.layout->holds_or_its_parameter(input.name); });
}

void StepComparer::leave_out(const std::set<const CompareFinding*>& findings) {
  if (findings.empty()) return;
  std::vector<CompareFinding> left;
  for (CompareFinding& finding : findings_) {
    if (!findings.contains(&finding)) left.push_back(std::move(finding));
  }
  findings_ = std::move(left);
}

// Follows the readers until they agree again.
StepComparer::Effect StepComparer::effect_of(const CompareFinding& finding) const {
  const ComparedOp& at = *finding.op;
  double source = 1;
  if (finding.tensor != nullptr && finding.tensor->difference->same_shape) {
    source = finding.tensor->difference->relative();
  }
  if (is_in_another_layout(finding)) source = 0;  // the size of its error says nothing: only rounding is left of it
  Effect effect;
  std::vector<bool> visited(target_.ops.size(), false);
  std::vector<std::uint32_t> border = {at.target_index};
  visited[at.target_index] = true;
  while (!border.empty()) {
    const std::uint32_t t = border.back();
    border.pop_back();
    // Null: an op that was not compared.
    const ComparedOp* op = target_owner_[t] != kNone ? &step_.ops[target_owner_[t]] : nullptr;
    const bool is_last = op != nullptr && !op->golden.empty() && op->target_index == t;
    const bool is_decisive = is_last && !op->outputs.empty() && std::ranges::all_of(op->outputs, is_comparable);
    effect.built_otherwise = effect.built_otherwise || !is_last || is_built_otherwise(*op);
    const auto healed = [&](const ComparedTensor& tensor) { return is_healed(tensor, source, !other_precision_); };
    if (is_decisive && std::ranges::all_of(op->outputs, healed)) {
      // The inputs of the optimizer count, however little of them is left in the parameter.
      const bool updates = phase_of(*target_.ops[t].op) == Phase::optimizer;
      if (updates && !reads_other_layouts(t) &&
          !std::ranges::all_of(op->inputs, [&](const ComparedTensor& in) { return is_comparable(in) && healed(in); })) {
        effect.lasts = true;
        return effect;
      }
      effect.heals = true;
      continue;
    }
    bool is_read = false;
    for (const std::uint32_t reader : target_.ops[t].readers) {
      const auto reads = [&](const CompareInput& input) { return input.from == t && input.is_read; };
      if (target_.ops[reader].outputs.empty()) continue;  // `item` takes a result out of the step
      is_read = is_read || std::ranges::any_of(target_.ops[reader].inputs, reads);
      if (visited[reader]) continue;
      visited[reader] = true;
      border.push_back(reader);
    }
    if (!is_read && is_decisive && !reads_other_layouts(t)) {  // an end that differs: the loss, a parameter, a gradient
      effect.lasts = true;
      return effect;
    }
  }
  return effect;
}

// If all paths agree again, the two sides only compute differently.
bool StepComparer::has_effect(const CompareFinding& finding) const { return effect_of(finding).stays(); }

// One of the two reads parameters that the other does not have: a norm without its affine part.
bool StepComparer::reads_other_parameters(const ComparedOp& op) const {
  const auto count = [](const CompareSide& side, std::uint32_t at) {
    return std::ranges::count_if(side.ops[at].inputs, [](const CompareInput& input) {
      return input.is_read && input.from == kNoOp && !input.tensor->parameter.empty();
    });
  };
  return op.target.size() == 1 && op.golden.size() == 1 &&
         count(target_, op.target_index) != count(golden_, op.golden_index);
}

// It, or an op beside it, has no counterpart or one of several ops, or reads other parameters.
bool StepComparer::is_built_otherwise(const ComparedOp& op) const {
  if (op.target.size() != op.golden.size() || is_doubtful(op) || reads_other_parameters(op)) return true;
  return std::ranges::any_of(target_.ops[op.target_index].inputs, [&](const CompareInput& input) {
    if (input.from == kNoOp || target_owner_[input.from] == kNone) return false;
    const ComparedOp& maker = step_.ops[target_owner_[input.from]];
    return !maker.target.empty() && !maker.golden.empty() && reads_other_parameters(maker);
  });
}

// A weight that took in what the other side computes beside it: a merged adapter, a folded norm or scale. Its values
// differ, but all results agree again, where the two sides are built in different ways.
void StepComparer::leave_absorbed_out() {
  std::vector<std::string> names, relaid;
  std::set<const CompareFinding*> absorbed;
  for (const CompareFinding& finding : findings_) {
    const ComparedOp& op = *finding.op;
    if (op.target.empty() || op.golden.empty()) continue;
    const bool lacks_parameters = finding.kind == FindingKind::op && reads_other_parameters(op);
    if (finding.kind != FindingKind::parameter && !lacks_parameters) continue;
    const Effect effect = effect_of(finding);
    const bool is_relaid = is_in_another_layout(finding);
    if (effect.stays() || (!effect.built_otherwise && !is_relaid)) continue;
    absorbed.insert(&finding);
    if (finding.kind != FindingKind::parameter) continue;
    (is_relaid ? relaid : names).emplace_back(finding.tensor->target->parameter);
  }
  leave_out(absorbed);
  if (!relaid.empty()) note_layouts();
  if (names.empty()) return;
  const std::string more = names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "";
  step_.notes_of_both.push_back(
      fmt::format("{}{}: other values than the golden ones, but the results agree; the weights contain what the golden "
                  "run computes beside them (a merged adapter, a folded norm)",
                  names.front(), more));
}

void StepComparer::note_layouts() {
  const std::string note =
      fmt::format("{}: the golden values in another layout (transposed, in another order, stacked, or cut)",
                  history_.layout->names_text());
  if (std::ranges::find(step_.notes_of_both, note) == step_.notes_of_both.end()) step_.notes_of_both.push_back(note);
}

// Every op that reads it reads something else that differs, too, and gives the same: the differences cancel.
bool StepComparer::is_compensated(std::string_view name) const {
  constexpr double kLarge = 1e-3;
  bool any = false;
  for (const ComparedOp& op : step_.ops) {
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

// Data that only one side normalises, and weights that do so in the other: the first product agrees.
void StepComparer::leave_compensated_out() {
  std::set<const CompareFinding*> compensated;
  std::string names;
  for (const CompareFinding& finding : findings_) {
    const bool is_outside = finding.kind == FindingKind::parameter || finding.kind == FindingKind::data;
    if (!is_outside || finding.tensor == nullptr || finding.tensor->target->parameter.empty()) continue;
    if (!is_compensated(finding.tensor->target->parameter)) continue;
    compensated.insert(&finding);
    names += (names.empty() ? "" : ", ") + std::string(finding.tensor->target->parameter);
  }
  leave_out(compensated);
  if (names.empty()) return;
  step_.notes_of_both.push_back(fmt::format(
      "{}: other values than the golden ones, but their differences cancel: what is computed from them agrees", names));
}

std::vector<OpPair> StepComparer::without_effect() const {
  constexpr std::size_t kMostFollowed = 64;  // the first are those that count
  std::vector<OpPair> pairs;
  for (std::size_t i = 0; i < std::min(findings_.size(), kMostFollowed); ++i) {
    const CompareFinding& finding = findings_[i];
    const bool by_place = finding.kind == FindingKind::wiring || finding.kind == FindingKind::inserted ||
                          finding.kind == FindingKind::missing || finding.kind == FindingKind::shape ||
                          finding.kind == FindingKind::op;
    const ComparedOp& op = *finding.op;
    const bool is_parameter = finding.kind == FindingKind::shape && finding.tensor->target->is_input;
    if (!by_place || is_parameter || op.target.empty() || op.golden.empty() || op.how == MatchedBy::mapping) continue;
    if (op.how == MatchedBy::recomputation) continue;
    if (finding.kind == FindingKind::op && !is_doubtful(op)) continue;
    if (finding.certain) continue;
    if (!has_effect(finding)) pairs.emplace_back(op.target_index, op.golden_index);
  }
  return pairs;
}

// No counterpart was found for the op of this side.
bool StepComparer::is_alone(const std::vector<std::uint32_t>& owner, std::uint32_t at) const {
  return at != kNoOp && owner[at] != kNone && step_.ops[owner[at]].verdict == OpVerdict::unmatched;
}

// It reads, or is read by, an op without a counterpart.
bool StepComparer::is_doubtful(const ComparedOp& op) const {
  const auto around = [&](const CompareSide& side, const std::vector<std::uint32_t>& owner, std::uint32_t at) {
    const CompareOp& one = side.ops[at];
    return std::ranges::any_of(one.inputs, [&](const CompareInput& input) { return is_alone(owner, input.from); }) ||
           std::ranges::any_of(one.readers, [&](std::uint32_t reader) { return is_alone(owner, reader); });
  };
  return around(target_, target_owner_, op.target_index) || around(golden_, golden_owner_, op.golden_index);
}

// The place of a golden op in the order of the target's.
std::uint32_t StepComparer::place_of_golden(std::uint32_t golden) const {
  for (std::uint32_t g = golden + 1; g-- > 0;) {
    if (golden_owner_[g] == kNone) continue;
    const std::uint32_t target = step_.ops[golden_owner_[g]].target_index;
    if (target != kNoOp) return target;
  }
  return 0;
}

// A parameter or state that one of the two writes and the other only reads.
void StepComparer::find_updates_left_out() {
  // In other frameworks the names do not show which ops write in place.
  const auto says_who_writes = [](const CompareSide& side) {
    return std::ranges::any_of(side.ops, &CompareOp::in_place);
  };
  if (other_optimizer_ || !says_who_writes(target_) || !says_who_writes(golden_)) return;
  const auto op_of = [&](const std::vector<std::uint32_t>& owner, std::uint32_t at) -> const ComparedOp* {
    if (owner[at] == kNone || step_.ops[owner[at]].verdict != OpVerdict::unmatched) return nullptr;
    return &step_.ops[owner[at]];
  };
  for (const auto& [name, writer] : golden_.written) {
    const ComparedOp* op = op_of(golden_owner_, writer.op);
    if (op == nullptr || target_.written.contains(name) || !target_names_.contains(name)) continue;
    if (target_.may_be_written.contains(name)) continue;
    add_finding(FindingKind::missing, *op, golden_.ops[writer.op].op, true, nullptr,
                fmt::format("has no counterpart in the target, which does not write {}", name));
    findings_.back().place = place_of_golden(writer.op);
  }
  for (const auto& [name, writer] : target_.written) {
    const ComparedOp* op = op_of(target_owner_, writer.op);
    const auto theirs = golden_.written.find(name);
    if (op != nullptr && theirs != golden_.written.end()) {  // written once more than in the golden run
      const TensorDifference& left = differences_.of(of_target(writer.output), of_golden(theirs->second.output));
      if (!left.comparable() || !is_beyond(left, allowance_of_parameter(left, seen_, options_.tolerance))) continue;
      add_finding(FindingKind::inserted, *op, target_.ops[writer.op].op, false, nullptr,
                  fmt::format("has no counterpart in the golden dump, and writes {}", name));
      continue;
    }
    if (op == nullptr || golden_.written.contains(name) || !golden_names_.contains(name)) continue;
    if (golden_.may_be_written.contains(name)) continue;
    add_finding(FindingKind::inserted, *op, target_.ops[writer.op].op, false, nullptr,
                fmt::format("has no counterpart in the golden dump, where nothing writes {}", name));
  }
}

// An op without a counterpart whose finite inputs give NaN, or an infinity that stays until the end of the step: nothing
// that both dumps have needs to read it, as the end of a loss. A mask of `-inf` is none.
void StepComparer::find_not_finite_alone() {
  HealthReader target(*target_.rank, static_cast<unsigned>(options_.threads));
  HealthReader golden(*golden_.rank, static_cast<unsigned>(options_.threads));
  Health theirs;
  for (const ComparedOp& op : step_.ops) {
    if (op.verdict != OpVerdict::unmatched || !op.target.empty()) continue;
    theirs.add(health_of_outputs(golden_.ops[op.golden_index], golden));
  }
  for (const ComparedOp& op : step_.ops) {
    if (op.verdict != OpVerdict::unmatched || op.target.empty()) continue;
    const CompareOp& own = target_.ops[op.target_index];
    const Health made = own.unwritten ? Health{} : health_of_outputs(own, target);
    const bool is_nan = made.nan && !theirs.nan;
    const bool is_inf = (made.positive_inf && !theirs.positive_inf) || (made.negative_inf && !theirs.negative_inf);
    if ((!is_nan && !is_inf) || health_of_inputs(own, target).bad()) continue;
    const auto is_tensor = [](const CompareInput& input) { return input.is_read && !input.tensor->constant; };
    const bool is_written_down = std::ranges::none_of(own.inputs, is_tensor);  // for a `where`, which may drop it
    if ((!is_nan || is_written_down) && !reaches_an_end(op.target_index, target)) continue;
    const auto is_known = [&](const CompareFinding& finding) { return finding.culprit == own.op; };
    if (std::ranges::any_of(findings_, is_known)) break;
    add_finding(FindingKind::non_finite, op, own.op, false, nullptr,
                fmt::format("has no counterpart in the golden dump, and gives {} from finite inputs",
                            is_nan ? "NaN" : "infinity"));
    break;
  }
  for (const HealthReader* reader : {&target, &golden}) {
    for (const CatalogProblem& problem : reader->problems()) {
      step_.notes.push_back(fmt::format("{}: {}", problem.path.string(), problem.message));
    }
  }
}

// NaN or infinity is in what is computed from this op, up to an op that none reads.
bool StepComparer::reaches_an_end(std::uint32_t target, HealthReader& health) const {
  std::set<std::uint32_t> visited = {target};
  Group border = {target};
  while (!border.empty()) {
    const std::uint32_t t = border.back();
    border.pop_back();
    bool is_read = false;
    for (const std::uint32_t reader : target_.ops[t].readers) {
      const auto reads = [&](const CompareInput& input) { return input.from == t && input.is_read; };
      if (!std::ranges::any_of(target_.ops[reader].inputs, reads)) continue;
      is_read = true;
      if (health_of_outputs(target_.ops[reader], health).bad() && visited.insert(reader).second) {
        border.push_back(reader);
      }
    }
    if (!is_read) return true;
  }
  return false;
}

// The largest relative error at the op that shows it; 1 where tensors cannot be compared. A parameter that differs must
// have an effect at its reader: if it has none, other values of it may.
double StepComparer::size_of_error(const CompareFinding& finding) const {
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

// Two ways to compute the same differ in between, and leave the same. Errors that are not much larger than rounding
// would not be visible in what the step leaves, so they stay.
void StepComparer::leave_out_what_has_no_effect() {
  constexpr double kLarge = 1e-3;
  if (findings_.empty() || !target_.has_flow || !golden_.has_flow) return;
  const auto of_optimizer = [&](const CompareFinding& finding) {
    const CatalogOp* op = finding.culprit;
    return op != nullptr && phase_of(*op) == Phase::optimizer;
  };
  StepEnds ends(target_, golden_, differences_, history_.layout.get());
  std::optional<bool> agree, updates_agree;
  const auto has_none = [&](const CompareFinding& finding) {
    // A pair that proves nothing, however small its error is.
    const bool is_guess = rests_on_order(finding) || is_rounding_of_a_guess(finding);
    if (finding.certain || has_nan_alone(finding) || (is_called_otherwise(finding) && !is_guess) ||
        finding.kind == FindingKind::changed || finding.kind == FindingKind::type)
      return false;
    if (finding.op->how == MatchedBy::mapping) return false;
    if (!is_guess && !is_in_another_layout(finding) && size_of_error(finding) < kLarge) return false;
    if (!agree) agree = ends.results_and_gradients_agree();
    if (!*agree) return false;
    if (!of_optimizer(finding)) return true;
    // A state has the shape of its parameter.
    const bool is_relaid = !finding.op->target.empty() && reads_other_layouts(finding.op->target_index);
    if (finding.kind == FindingKind::shape && is_relaid) return true;
    if (!updates_agree) updates_agree = ends.updates_agree();
    return *updates_agree;
  };
  const std::size_t before = findings_.size();
  bool any_relaid = false;
  std::erase_if(findings_, [&](const CompareFinding& finding) {
    if (!has_none(finding)) return false;
    const_cast<ComparedOp*>(finding.op)->verdict = OpVerdict::propagated;
    any_relaid = any_relaid || is_in_another_layout(finding);
    return true;
  });
  if (any_relaid) note_layouts();
  if (before > 0 && findings_.empty()) {
    seen_ = std::min(seen_, kLarge);
    step_.notes_of_both.push_back(
        "the two compute the same in different ways: what a step leaves (results, losses, gradients) agrees");
  }
}

// The op that may have put what this one reads in another order, of those that only move elements: it has no
// counterpart, was called otherwise, or chooses by numbers. And the compared op where it shows.
std::pair<const ComparedOp*, const CatalogOp*> StepComparer::reordering_before(const ComparedOp& op) const {
  constexpr std::size_t kMost = 24;
  const auto chooses = [](const CatalogOp& one) {
    const std::string type = bare_type(one.op_type);
    return type.starts_with("index") || type.starts_with("gather") || type == "take" || type == "embedding";
  };
  const ComparedOp* choosing = nullptr;
  for (const bool in_golden : {false, true}) {
    const CompareSide& side = in_golden ? golden_ : target_;
    const std::vector<std::uint32_t>& owner = in_golden ? golden_owner_ : target_owner_;
    Group border = {in_golden ? op.golden_index : op.target_index};
    for (std::size_t i = 0; i < border.size() && i < kMost; ++i) {
      for (const CompareInput& input : side.ops[border[i]].inputs) {
        if (input.from == kNoOp || !input.is_read || owner[input.from] == kNone) continue;
        const ComparedOp& before = step_.ops[owner[input.from]];
        const OpKind kind = side.ops[input.from].kind;
        const bool is_alone = before.verdict == OpVerdict::unmatched;
        const bool is_elementwise =
            kind == OpKind::exact || kind == OpKind::elementwise || kind == OpKind::transcendental;
        if (kind == OpKind::selection && !is_alone && !before.golden.empty() &&
            !choices_apart(*before.target.back(), *before.golden.back()).empty()) {
          return {&before, side.ops[input.from].op};
        }
        if (kind != OpKind::copy) {  // data in another order stays in that order
          if (is_elementwise && !is_alone) border.push_back(input.from);
          continue;
        }
        if (is_alone || !attributes_apart(*before.target.back(), *before.golden.back()).empty()) {
          return {&before, side.ops[input.from].op};
        }
        if (choosing == nullptr && chooses(*before.target.back())) choosing = &before;
        border.push_back(input.from);
      }
    }
  }
  if (choosing != nullptr) return {choosing, choosing->target.back()};
  return {nullptr, nullptr};
}

// Nothing else than their order shows that the op and its counterpart belong together.
bool StepComparer::rests_on_order(const CompareFinding& finding) const {
  const ComparedOp& op = *finding.op;
  if (op.target.size() != 1 || op.golden.size() != 1 || finding.certain) return false;
  const bool by_place = finding.kind == FindingKind::op || finding.kind == FindingKind::shape ||
                        finding.kind == FindingKind::wiring || finding.kind == FindingKind::data ||
                        finding.kind == FindingKind::type;
  const OpMatch& match = matches_[op.target_index];
  return by_place && match.by_order_alone && match.golden == op.golden_index;
}

// Not only the side with an op that the other lacks: where it shows, that side has ops without a counterpart as well.
bool StepComparer::has_ops_on_both_sides(const CompareFinding& finding) const {
  const bool is_inserted = finding.kind == FindingKind::inserted, is_missing = finding.kind == FindingKind::missing;
  if (!is_inserted && !is_missing) return false;
  const CompareSide& other = is_inserted ? golden_ : target_;
  const std::vector<std::uint32_t>& owner = is_inserted ? golden_owner_ : target_owner_;
  const std::uint32_t at = is_inserted ? finding.op->golden_index : finding.op->target_index;
  return std::ranges::any_of(other.ops[at].inputs,
                             [&](const CompareInput& input) { return input.is_read && is_alone(owner, input.from); });
}

// Ops around it have no counterpart: if two programs are built differently, one of those may be the cause.
void StepComparer::note_doubts() {
  for (CompareFinding& finding : findings_) {
    const ComparedOp& op = *finding.op;
    if (!finding.uncertain && rests_on_order(finding)) {
      finding.uncertain = true;
      finding.what += fmt::format("; {} and the golden op were paired by their order alone (--mapping FILE pairs them)",
                                  op.target.front()->op_name);
      continue;
    }
    const bool by_place = finding.kind == FindingKind::op || finding.kind == FindingKind::shape;
    if (finding.uncertain || op.target.empty() || op.golden.empty()) continue;
    if (has_ops_on_both_sides(finding)) {
      finding.uncertain = true;
      finding.what +=
          "; the other side has ops of its own there, too: perhaps both compute the same (--mapping FILE pairs them)";
      continue;
    }
    if (!by_place || !is_doubtful(op)) continue;
    finding.uncertain = true;
    finding.what += "; or one of the ops around it, which have no counterpart (--all; --mapping FILE pairs them)";
  }
}

// The two compute differently, so the order of what they read need not explain the difference.
bool StepComparer::has_reason_of_its_own(const ComparedOp& op) const {
  const CompareOp &left = target_.ops[op.target_index], &right = golden_.ops[op.golden_index];
  return !OpFamilies::same(*left.family, *right.family) || !values_apart(*left.op, *right.op).empty();
}

// Statistics do not show the order of elements: for an op with seemingly equal inputs, those that reorder them.
void StepComparer::blame_reordering() {
  for (CompareFinding& finding : findings_) {
    if (finding.kind != FindingKind::op || finding.tensor == nullptr || finding.op->golden.empty()) continue;
    if (finding.tensor->difference->by != ComparedBy::statistics || finding.op->inputs.empty()) continue;
    const double shown = finding.tensor->difference->relative();
    const bool seem_equal = std::ranges::all_of(finding.op->inputs, [&](const ComparedTensor& input) {
      const double spacing = coarser_spacing(*input.difference);
      return input.difference->relative() <= std::max(1e-12, std::min(16 * spacing, 1e-3 * shown));
    });
    if (!seem_equal || has_reason_of_its_own(*finding.op)) continue;
    finding.uncertain = true;
    const std::string settle = fmt::format(
        "statistics do not show the order of elements; dumps of the tensors of {} and of the operators before it "
        "settle it",
        finding.op->target.back()->op_name);
    const auto [op, culprit] = reordering_before(*finding.op);
    if (culprit == nullptr) {
      finding.what += "; or its inputs have the same elements in another order (" + settle + ")";
      continue;
    }
    std::string why = op->verdict == OpVerdict::unmatched ? "has no counterpart" : "may choose other elements";
    if (op->verdict != OpVerdict::unmatched) {
      const std::vector<std::string> apart = attributes_apart(*op->target.back(), *op->golden.back());
      if (!apart.empty()) why = "is called with " + apart.front();
    }
    finding.what = fmt::format("{}, and {}, which reads its output, {} ({})", why, finding.culprit->op_name,
                               "introduces " + finding.what, settle);
    finding.kind = FindingKind::wiring;
    finding.in_golden = op->target.empty();
    finding.culprit = culprit;
    finding.place = op->target.empty() ? place_of_golden(op->golden_index) : op->target_index;
  }
}

// One op that changes the input of many is one cause.
void StepComparer::report_each_cause_once() {
  std::set<std::pair<const CatalogOp*, FindingKind>> known;
  std::erase_if(findings_, [&](const CompareFinding& finding) {
    const bool is_between = finding.kind == FindingKind::inserted || finding.kind == FindingKind::missing;
    return is_between && !known.emplace(finding.culprit, finding.kind).second;
  });
}

// A call with another number whose own result is the same, before anything differs; and a detach that only one of the
// two has, where gradients differ.
void StepComparer::name_suspects() {
  const auto first = std::ranges::min_element(findings_, {}, &CompareFinding::place);
  const bool any_rounding = std::ranges::any_of(step_.ops, [](const ComparedOp& op) {
    return op.verdict == OpVerdict::within_tolerance || op.verdict == OpVerdict::propagated;
  });
  if (suspect_ != nullptr && (first != findings_.end() ? first->place > suspect_->target_index : any_rounding)) {
    const std::vector<std::string> apart = numbers_apart(*suspect_->target.back(), *suspect_->golden.back());
    add_finding(FindingKind::number, *suspect_, suspect_->target.back(), false, nullptr,
                fmt::format("is called with {}: its own result is the same, but later results differ", apart.front()));
    return;
  }
  if (first == findings_.end() || first->op->target.empty()) {
    if (first == findings_.end() || first->kind != FindingKind::missing) return;
  } else if (phase_of(*first->op->target.front()) == Phase::forward) {
    return;
  }
  const std::uint32_t place = first->place;
  const std::string shown = fmt::format("{} {}", first->culprit->op_name, first->what);
  const ComparedOp* op = nullptr;
  std::uint32_t begins = place;
  for (const ComparedOp& one : step_.ops) {
    if (one.verdict != OpVerdict::unmatched) continue;
    const CatalogOp& own = *(one.golden.empty() ? one.target : one.golden).front();
    const std::string type = bare_type(own.op_type);
    if ((type != "detach" && type != "stopgradient") || phase_of(own) != Phase::forward) continue;
    const std::uint32_t at = one.golden.empty() ? one.target_index : place_of_golden(one.golden_index);
    if (at >= begins) continue;
    begins = at;
    op = &one;
  }
  if (op == nullptr) return;
  const bool in_golden = op->target.empty();
  add_finding(in_golden ? FindingKind::missing : FindingKind::inserted, *op,
              (in_golden ? op->golden : op->target).front(), in_golden, nullptr,
              fmt::format("has no counterpart in the {}, and gradients differ: {}",
                          in_golden ? "target" : "golden dump", shown));
  findings_.back().place = begins;
}

void StepComparer::remember(RankHistory& history) const {
  history.seen = std::max(history.seen, seen_);
  history.step = target_.step->id.number;
  history.other_optimizer = other_optimizer_;
  history.found = history.found || !findings_.empty();
  for (const CompareOp& op : golden_.ops) {
    for (const CompareInput& input : op.inputs) {
      if (input.from != kNoOp || is_data_name(input.tensor->parameter)) continue;
      RankHistory::State& state = history.states[std::string(input.tensor->parameter)];
      state.golden = input.tensor;
      state.rank = golden_.rank;
      state.judged = false;
    }
  }
  const auto measure = [&](std::string_view name, const TensorDifference& difference) {
    const auto state = history.states.find(name);
    if (state == history.states.end() || !difference.comparable()) return;
    state->second.apart = {difference.rms_error, difference.max_error};
    state->second.judged = difference.by == ComparedBy::values || difference.by == ComparedBy::statistics;
  };
  for (const ComparedOp& op : step_.ops) {
    for (const ComparedTensor& input : op.inputs) {
      const std::string_view name = input.golden == nullptr ? std::string_view() : input.golden->parameter;
      const bool is_of_before = input.target->source == kNoSequence;
      if (is_of_before && !name.empty() && !golden_.written.contains(name) && !target_.written.contains(name)) {
        measure(name, *input.difference);
      }
    }
    if (op.target.empty() || op.golden.empty()) continue;
    for (const ComparedTensor& output : op.outputs) {
      const CompareOp& writer = golden_.ops[op.golden_index];
      for (std::size_t i = 0; i < writer.outputs.size(); ++i) {
        if (writer.outputs[i] != output.golden || writer.states[i].empty()) continue;
        const auto last = golden_.written.find(writer.states[i]);
        if (last->second.output == output.golden) measure(writer.states[i], *output.difference);
      }
    }
  }
}

}  // namespace sonde
