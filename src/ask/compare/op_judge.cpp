#include "ask/compare/op_judge.h"

#include <algorithm>
#include <limits>

#include "ask/compare/compare_words.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_questions.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

// Relative to the summed terms if they exceed the sum: the gradient of a bias before a norm is 0 except for rounding.
double scaled_relative(const TensorDifference& difference, const Allowance& allowance) {
  if (difference.rms_error == 0) return 0;
  const double added_up = allowance.epsilon > 0 ? allowance.rounding.rms / (4 * allowance.epsilon) : 0;
  const double scale = std::max(difference.rms, added_up);
  return scale > 0 ? difference.rms_error / scale : 0;
}

// From statistics, which do not show it: other elements of the same input.
bool orders_otherwise(const ComparedOp& op) {
  if (op.outputs.empty() || op.outputs[0].difference->by != ComparedBy::statistics) return false;
  const CatalogOp &target = *op.target.back(), &golden = *op.golden.back();
  if (op.kind != OpKind::copy || target.attributes == nullptr || golden.attributes == nullptr) return false;
  if (op.outputs[0].difference->shape != op.outputs[0].difference->golden_shape) return false;
  for (const Attribute& attribute : *target.attributes) {
    const std::string& name = attribute.name;
    if (name != "shifts" && name != "index" && name != "start" && name != "diagonal") continue;
    const Attribute* other = attribute_of(golden, name);
    if (other == nullptr || other->integers == attribute.integers) continue;
    // From the end, or from the beginning.
    const auto is_negative = [](std::int64_t number) { return number < 0; };
    if (std::ranges::any_of(attribute.integers, is_negative) == std::ranges::any_of(other->integers, is_negative)) {
      return true;
    }
  }
  return false;
}

// It reads the same up to rounding and chooses otherwise, because it is called otherwise.
bool chooses_otherwise(const Judged& judged) {
  constexpr double kMostBefore = 1e-3;
  const ComparedOp& op = judged.op;
  double before = 0, after = 0;
  for (const ComparedTensor& input : op.inputs) {
    if (!input.difference->comparable()) return false;
    before = std::max(before, input.difference->relative());
  }
  for (const ComparedTensor& output : op.outputs) after = std::max(after, output.difference->relative());
  if (judged.finding || before > kMostBefore || after < std::max(kMaxExplainable, 100 * before)) return false;
  return !choices_apart(*op.target.back(), *op.golden.back()).empty();
}

}  // namespace

// The outputs of an op of lists belong to the tensors of its first lists, which may be in any order.
std::uint32_t OpJudge::golden_slot_of(std::uint32_t slot, const Judged& judged) const {
  const CompareOp& own = facts_.target.ops[judged.op.target_index];
  if ((!is_list_op(own.op->op_type) && !is_fused_optimizer(own.op->op_type)) || own.outputs.size() < 2) return slot;
  for (const PairedInput& input : judged.inputs) {
    if (input.golden.input == nullptr || input.target.op != judged.op.target_index) continue;
    if (input.target.input->tensor->slot == slot) return input.golden.input->tensor->slot;
  }
  return slot;
}

void OpJudge::judge_outputs(Judged& judged) const {
  if (facts_.target.ops[judged.op.target_index].unwritten || facts_.golden.ops[judged.op.golden_index].unwritten)
    return;
  const std::vector<const CatalogTensor*>& left = facts_.target.ops[judged.op.target_index].outputs;
  std::vector<const CatalogTensor*> right = facts_.golden.ops[judged.op.golden_index].outputs;
  for (const CatalogTensor* target : left) {
    const std::uint32_t slot = golden_slot_of(target->slot, judged);
    auto at = std::ranges::find_if(right, [&](const CatalogTensor* golden) {
      return golden != nullptr && golden->slot == slot && same_elements(*target, *golden);
    });
    if (at == right.end()) {
      at = std::ranges::find_if(right, [&](const CatalogTensor* golden) {
        return golden != nullptr && golden->has_shape && target->has_shape &&
               squeezed(golden->shape) == squeezed(target->shape);
      });
    }
    if (at == right.end() && left.size() == 1 && right.size() == 1) at = right.begin();
    if (at == right.end() || *at == nullptr) continue;
    ComparedTensor& output = judged.op.outputs.emplace_back();
    output.target = target;
    output.golden = *at;
    *at = nullptr;
    output.difference = &facts_.difference(target, output.golden);
    output.note = axes_text(*output.difference);
  }
}

// The kind of the op that does the work: for conv, bias and relu the conv; for permute and linear the linear.
OpKind OpJudge::kind_of_work(const Group& target, const Group& golden) const {
  OpKind kind = facts_.golden.ops[golden.front()].kind;
  for (const auto& [side, group] : {std::pair(&facts_.target, &target), std::pair(&facts_.golden, &golden)}) {
    for (const std::uint32_t at : *group) {
      const OpKind own = side->ops[at].kind;
      if (!moves_or_casts(own) && own != OpKind::other) return own;
      if (kind == OpKind::copy) kind = own;
    }
  }
  return kind;
}

// If both do different work, or one does it in several ops, each may round as it does: the widest of their bounds.
Allowance OpJudge::allowance_of_work(const ComparedOp& op, const ComparedTensor& output,
                                     const std::vector<InputError>& errors, double seen) const {
  const TensorDifference& difference = *output.difference;
  Allowance widest = allowance_of(op.target.front()->op_type, op.kind, output.target->slot, difference, errors, seen,
                                  facts_.options.tolerance);
  for (const std::vector<const CatalogOp*>* ops : {&op.target, &op.golden}) {
    for (const CatalogOp* one : *ops) {
      if (one->op_type == op.target.front()->op_type) continue;
      const OpKind kind = kind_of(one->op_type);
      if (kind == OpKind::copy || kind == OpKind::selection || kind >= OpKind::random) continue;
      widest.widen(
          allowance_of(one->op_type, kind, output.target->slot, difference, errors, seen, facts_.options.tolerance));
    }
  }
  return widest;
}

Judged OpJudge::judge(const Group& target, const Group& golden, MatchedBy how) const {
  Judged judged;
  ComparedOp& op = judged.op;
  op.target_index = target.back();
  op.golden_index = golden.back();
  for (const std::uint32_t i : target) op.target.push_back(facts_.target.ops[i].op);
  for (const std::uint32_t i : golden) op.golden.push_back(facts_.golden.ops[i].op);
  op.how = how;
  op.kind = kind_of_work(target, golden);
  // If two types were paired by a guess, one may compute what the other copies.
  const bool one_type = shared_type(op.target.front()->op_type) == shared_type(op.golden.front()->op_type);
  if (op.kind == OpKind::copy && is_guess(how) && !one_type) op.kind = OpKind::elementwise;
  judged.inputs = pair_inputs(facts_, target, golden);
  std::vector<InputError> errors;
  bool integers_differ = false;
  for (const PairedInput& input : judged.inputs) {
    if (input.difference == nullptr || !input.target.input->is_read) continue;
    ComparedTensor& shown = op.inputs.emplace_back();
    shown.target = input.target.input->tensor;
    shown.golden = input.golden.input != nullptr ? input.golden.input->tensor : nullptr;
    shown.difference = input.difference;
    const DType dtype = input.difference->dtype;
    const bool is_float = dtype == DType::undefined || is_floating(dtype) || is_complex(dtype);
    if (input.difference->by == ComparedBy::nothing) continue;
    if (is_float && input.difference->by != ComparedBy::checksum) {
      errors.push_back({input.difference, input.target.input->tensor->slot});
    } else if (!input.difference->equal) {
      integers_differ = true;
    }
  }
  judge_outputs(judged);
  judge_verdict(judged, errors, integers_differ);
  return judged;
}

struct OpJudge::Verdicts {
  bool any = false, all_equal = true, all_rounding = true;
  bool non_finite_in = false, shapes_in = false, inputs_equal = true, integers_differ = false;
  double worst = 0;

  bool says_why(const Judged& judged) const;
};

// Less than rounding explains, but the call gives the reason.
bool OpJudge::Verdicts::says_why(const Judged& judged) const {
  if (judged.finding || !any || !all_rounding) return false;
  if (inputs_equal && orders_otherwise(judged.op)) return true;
  if (all_equal) return false;
  const CatalogOp &target = *judged.op.target.back(), &golden = *judged.op.golden.back();
  if (inputs_equal && !judged.op.inputs.empty()) return !values_apart(target, golden).empty();
  return !numbers_apart(target, golden).empty();
}

// For two runs in one precision: the golden op returns a finer type, from inputs as fine as the golden ones.
bool OpJudge::has_coarser_type(const ComparedTensor& output, const ComparedOp& op) const {
  const TensorDifference& difference = *output.difference;
  if (facts_.other_precision || !is_floating(difference.dtype) || !is_floating(difference.golden_dtype)) return false;
  if (epsilon_of(difference.dtype) <= epsilon_of(difference.golden_dtype)) return false;
  return std::ranges::none_of(op.inputs, [](const ComparedTensor& input) {
    return is_floating(input.difference->dtype) &&
           epsilon_of(input.difference->dtype) > epsilon_of(input.difference->golden_dtype);
  });
}

void OpJudge::judge_output(Judged& judged, std::size_t index, const std::vector<InputError>& errors,
                           Verdicts& all) const {
  ComparedOp& op = judged.op;
  ComparedTensor& output = op.outputs[index];
  const TensorDifference& difference = *output.difference;
  const auto find = [&](FindingKind kind, double share) {
    output.beyond = true;
    if (judged.finding && share <= all.worst) return;
    all.worst = share;
    judged.finding = true;
    judged.kind = kind;
    judged.tensor = index;
  };
  if (!difference.same_shape) {
    all.any = true;
    all.all_equal = all.all_rounding = false;
    const bool explained = all.shapes_in || (!all.inputs_equal && shape_follows_values(op.target.front()->op_type));
    if (!explained) find(FindingKind::shape, std::numeric_limits<double>::infinity());
    return;
  }
  if (has_coarser_type(output, op)) {
    all.any = true;
    all.all_equal = all.all_rounding = false;
    return find(FindingKind::type, std::numeric_limits<double>::infinity());
  }
  if (difference.by == ComparedBy::nothing) return;
  all.any = true;
  const bool from_nothing = facts_.target.ops[op.target_index].inputs.empty() && op.kind == OpKind::copy;
  output.allowance =
      allowance_of_work(op, output, errors, from_nothing ? 0 : std::max(facts_.seen.now, facts_.seen.before));
  output.allowance.anything = output.allowance.anything || all.integers_differ;
  if (difference.by != ComparedBy::checksum) {
    judged.relative = std::max(judged.relative, scaled_relative(difference, output.allowance));
  }
  all.all_equal = all.all_equal && difference.equal;
  if (!is_beyond(difference, output.allowance.rounding)) return;
  all.all_rounding = false;
  const bool explained =
      all.shapes_in || output.allowance.anything || (all.non_finite_in && difference.different_non_finite > 0);
  const bool only_checksums = difference.by == ComparedBy::checksum && !all.inputs_equal && !op.inputs.empty();
  if (explained || only_checksums || !is_beyond(difference, output.allowance.total())) return;
  const double share = output.allowance.total().rms > 0 ? difference.rms_error / output.allowance.total().rms
                                                        : std::numeric_limits<double>::max();
  find(difference.different_non_finite > 0 ? FindingKind::non_finite : FindingKind::op, share);
}

void OpJudge::judge_verdict(Judged& judged, const std::vector<InputError>& errors, bool integers_differ) const {
  ComparedOp& op = judged.op;
  Verdicts all;
  all.integers_differ = integers_differ;
  for (const ComparedTensor& input : op.inputs) {
    all.non_finite_in = all.non_finite_in || input.difference->different_non_finite > 0;
    all.shapes_in = all.shapes_in || !input.difference->same_shape;
    all.inputs_equal = all.inputs_equal && input.difference->equal;
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) judge_output(judged, i, errors, all);
  if (all.says_why(judged) || chooses_otherwise(judged)) {
    judged.finding = true;
    const auto at = std::ranges::find_if(op.outputs, [](const ComparedTensor& out) { return !out.difference->equal; });
    judged.tensor = at == op.outputs.end() ? 0 : static_cast<std::size_t>(at - op.outputs.begin());
    op.outputs[judged.tensor].beyond = true;
  }
  op.verdict = !all.any           ? OpVerdict::unknown
               : judged.finding   ? OpVerdict::introduced
               : all.all_equal    ? OpVerdict::identical
               : all.all_rounding ? OpVerdict::within_tolerance
                                  : OpVerdict::propagated;
  if (!all.any) {
    op.reason = op.outputs.empty() ? "no output of one belongs to one of the other" : op.outputs[0].difference->problem;
  }
}

}  // namespace sonde
