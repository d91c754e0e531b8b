// The results that both runs have: if all of them agree, the two compute the same in different ways.
#include <algorithm>

#include "compare/compare_step.h"
#include "compare/compare_words.h"
#include "operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

using Gradients = std::map<std::string_view, const CatalogTensor*>;

// As the optimizer reads them first.
Gradients gradients_of(const CompareSide& side) {
  Gradients gradients;
  for (const CompareOp& op : side.ops) {
    if (phase_of(*op.op) != Phase::optimizer) continue;
    for (const CompareInput& input : op.inputs) {
      if (input.tensor->parameter.ends_with(".grad")) gradients.try_emplace(input.tensor->parameter, input.tensor);
    }
  }
  return gradients;
}

// Far below every fault that is worth a name, and above what many roundings add up to.
bool agrees(const TensorDifference& difference, double scale) {
  if (!difference.comparable() || difference.by == ComparedBy::checksum) return difference.equal;
  if (difference.equal) return true;
  if (difference.different_non_finite > 0) return false;
  const double spacing = std::max(epsilon_of(difference.dtype), epsilon_of(difference.golden_dtype));
  if (spacing == 0) return false;
  const double bound = std::min(64 * spacing, 1e-4);
  return difference.rms_error <= bound * std::max(difference.rms, 0.01 * scale);
}

// "Default/net/fc" of `Default/net/fc/mul-op0` and of `Gradients/Default/net/fc/Grad_mul/mul-op0`.
std::string_view layer_scope(std::string_view scope) {
  constexpr std::string_view kBackward = "Gradients/";
  if (scope.starts_with(kBackward)) scope.remove_prefix(kBackward.size());
  const std::size_t last = scope.rfind('/');
  if (last != std::string_view::npos && scope.substr(last + 1).starts_with("Grad_")) scope = scope.substr(0, last);
  return scope;
}

}  // namespace

// The gradients in the layers that both runs build alike. One that differs there counts, even if it vanishes on the way.
bool StepComparer::inner_gradients_agree(double scale) const {
  std::set<std::string_view> other_layers;
  for (const ComparedOp& op : step_.ops) {
    const bool alone = op.target.empty() || op.golden.empty();
    if (alone && !op.target.empty()) other_layers.insert(layer_scope(target_.ops[op.target_index].scope));
    if (alone && !op.golden.empty()) other_layers.insert(layer_scope(golden_.ops[op.golden_index].scope));
  }
  return std::ranges::all_of(step_.ops, [&](const ComparedOp& op) {
    if (op.target.empty() || op.golden.empty() || phase_of(*op.target.back()) != Phase::backward) return true;
    if (other_layers.contains(layer_scope(target_.ops[op.target_index].scope))) return true;
    return std::ranges::all_of(op.inputs, [&](const ComparedTensor& input) {
      return !input.difference->comparable() || !is_floating(input.difference->dtype) ||
             agrees(*input.difference, scale);
    });
  });
}

// All gradients that the optimizers read, and all ends of the forward pass.
bool StepComparer::results_agree() {
  const Gradients left = gradients_of(target_), right = gradients_of(golden_);
  if (left.empty() || left.size() != right.size()) return false;
  std::vector<const TensorDifference*> differences;
  double scale = 0;
  for (const auto& [name, tensor] : left) {
    const auto other = right.find(name);
    if (other == right.end()) return false;
    differences.push_back(&differences_.of(of_target(tensor), of_golden(other->second)));
    scale = std::max(scale, differences.back()->rms);
  }
  if (!std::ranges::all_of(differences, [&](const TensorDifference* one) { return agrees(*one, scale); })) return false;
  if (!inner_gradients_agree(scale)) return false;
  return std::ranges::all_of(step_.ops, [&](const ComparedOp& op) {
    if (op.target.empty() || op.golden.empty() || phase_of(*op.target.back()) != Phase::forward) return true;
    if (!target_.ops[op.target_index].readers.empty()) return true;
    return std::ranges::all_of(op.outputs, [](const ComparedTensor& output) {
      return !output.difference->comparable() || agrees(*output.difference, 0);
    });
  });
}

// Parts of the step that do not correspond, as another algorithm has them, are then no findings.
void StepComparer::leave_other_algorithms_out() {
  const auto is_of_the_way = [&](const CompareFinding& finding) {
    const ComparedOp& op = *finding.op;
    if (finding.certain || op.target.empty() || op.golden.empty()) return false;
    if (phase_of(*op.target.back()) == Phase::optimizer) return false;
    if (finding.kind == FindingKind::shape) return finding.tensor == nullptr || !finding.tensor->target->is_input;
    if (finding.kind == FindingKind::op) {
      const bool by_order = op.how == MatchedBy::order || op.how == MatchedBy::flow;
      return by_order || (is_doubtful(op) && values_apart(*op.target.back(), *op.golden.back()).empty());
    }
    return finding.kind == FindingKind::inserted || finding.kind == FindingKind::missing ||
           finding.kind == FindingKind::wiring;
  };
  if (!std::ranges::any_of(findings_, is_of_the_way) || !results_agree()) return;
  std::vector<CompareFinding> left;
  for (CompareFinding& finding : findings_) {
    if (!is_of_the_way(finding)) left.push_back(std::move(finding));
  }
  findings_ = std::move(left);
  if (findings_.empty()) seen_ = std::min(seen_, 1e-4);
}

}  // namespace sonde
