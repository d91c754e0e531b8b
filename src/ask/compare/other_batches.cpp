#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/compare/compare_passes.h"
#include "ask/compare/compare_words.h"
#include "ask/compare/factor.h"
#include "ask/compare/loss_parts.h"
#include "ground/base/shape.h"
#include "ground/model/gradient_name.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

struct Gradient {
  std::uint32_t op = kNoOp;
  const CatalogTensor* tensor = nullptr;
  std::uint32_t from = kNoOp, from_slot = 0;  // the output that it is
};

bool is_of_backward(const CompareSide& side, const Gradient& gradient) {
  return gradient.from != kNoOp && phase_of(*side.ops[gradient.from].op) == Phase::backward;
}

// By the name of the gradient: where the optimizer reads it first.
std::map<std::string_view, Gradient> read_gradients(const CompareSide& side) {
  std::map<std::string_view, Gradient> gradients;
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    if (phase_of(*side.ops[i].op) != Phase::optimizer) continue;
    for (const CompareInput& input : side.ops[i].inputs) {
      const bool is_gradient = input.is_read && is_gradient_name(input.name) && input.tensor->recorded();
      if (is_gradient) gradients.try_emplace(input.name, Gradient{i, input.tensor, input.from, input.from_slot});
    }
  }
  return gradients;
}

struct OtherGradient {
  std::string_view name;
  Gradient mine;
  const TensorDifference* difference = nullptr;
  std::optional<double> factor;
  std::optional<double> of_norms;  // by statistics: sums that cancel have no factor
};

bool have_one_factor(const std::vector<OtherGradient>& all) {
  const auto with_factor = std::ranges::find_if(all, [](const OtherGradient& one) { return one.factor.has_value(); });
  if (with_factor == all.end()) return false;
  const double factor = *with_factor->factor;
  return std::ranges::all_of(all, [&](const OtherGradient& one) {
    const std::optional<double> own = one.factor ? one.factor : one.of_norms;
    const bool is_near = own && std::abs(*own - (one.factor ? factor : std::abs(factor))) <= 2e-3 * std::abs(factor);
    return is_near;
  });
}

std::optional<double> factor_of_norms(const TensorDifference& difference, const CatalogTensor& mine,
                                      const CatalogTensor& golden) {
  if (difference.by != ComparedBy::statistics || !mine.statistics || !golden.statistics) return std::nullopt;
  const auto &norm = mine.statistics->l2norm, &golden_norm = golden.statistics->l2norm;
  if (!norm || !golden_norm || *golden_norm == 0) return std::nullopt;
  return *norm / *golden_norm;
}

// The operator that gives the backward pass its factor: it multiplies the loss, or begins the pass where each part of the
// batch counts as the whole one; kNoOp: not known.
std::uint32_t factor_of_backward(const CompareFacts& facts, double factor) {
  const CompareSide& side = facts.target;
  const std::vector<std::uint32_t> begins = begins_of_backward(side);
  if (begins.empty()) return kNoOp;
  const CompareOp& seed = side.ops[begins.front()];
  const std::uint32_t scaled = seed.inputs.empty() ? kNoOp : scaled_loss(side, seed.inputs[0].from, factor);
  if (scaled != kNoOp) return scaled;
  const std::size_t parts = begins.size(), golden_parts = begins_of_backward(facts.golden).size();
  const bool is_sum = parts > golden_parts && std::abs(factor * static_cast<double>(golden_parts) -
                                                       static_cast<double>(parts)) <= 2e-3 * static_cast<double>(parts);
  return is_sum ? begins.front() : kNoOp;
}

// The gradient as it was before the operator that made it, such as one that clips; nothing: it was made anew.
std::optional<Gradient> before(const CompareSide& side, const Gradient& gradient) {
  const std::vector<CompareInput>& inputs = side.ops[gradient.from].inputs;
  if (gradient.from_slot >= inputs.size()) return std::nullopt;
  const CompareInput& read = inputs[gradient.from_slot];
  if (read.from == kNoOp || !read.tensor->recorded() || read.tensor->shape != gradient.tensor->shape)
    return std::nullopt;
  return Gradient{gradient.from, read.tensor, read.from, read.from_slot};
}

// The operator of the target that gives all gradients their factor: one after the backward pass, or what this begins with;
// kNoOp: not known, as where the golden run scales them afterwards.
std::uint32_t scaled_by(const CompareFacts& facts, Gradient mine, Gradient golden, double factor) {
  // Both may clip them.
  constexpr int kMostSteps = 4;
  for (int i = 0; i < kMostSteps && !is_of_backward(facts.golden, golden); ++i) {
    if (mine.from == kNoOp || golden.from == kNoOp) return kNoOp;
    if (facts.target.ops[mine.from].op->op_type != facts.golden.ops[golden.from].op->op_type) return kNoOp;
    const std::optional<Gradient> own = before(facts.target, mine), theirs = before(facts.golden, golden);
    if (!own || !theirs) return kNoOp;
    const std::optional<double> had = factor_between(facts.difference(own->tensor, theirs->tensor));
    if (!had || std::abs(*had - factor) > 2e-3 * std::abs(factor)) return mine.from;
    mine = *own;
    golden = *theirs;
  }
  if (!is_of_backward(facts.golden, golden)) return kNoOp;
  return is_of_backward(facts.target, mine) ? factor_of_backward(facts, factor) : mine.from;
}

// A norm that takes the mean and the variance of a part of the batch, and in the other run those of all of it: no factor
// makes up for that. `gradient`: how the gradient differs.
bool report_norm_of_parts(const CompareFacts& facts, StepFindings& findings, std::string_view gradient) {
  for (const ComparedOp& op : facts.pairs.ops()) {
    if (op.target.size() != 1 || op.golden.size() != 1) continue;
    if (!normalises_by_batch(*op.target[0]) || !normalises_by_batch(*op.golden[0])) continue;
    const CompareOp &mine = facts.target.ops[op.target_index], &theirs = facts.golden.ops[op.golden_index];
    if (mine.inputs.empty() || theirs.inputs.empty()) continue;
    const CatalogTensor &read = *mine.inputs[0].tensor, &golden = *theirs.inputs[0].tensor;
    if (read.shape.empty() || golden.shape.empty() || read.shape[0] == golden.shape[0]) continue;
    CompareFinding& finding =
        findings.add(FindingKind::changed, op, op.target[0], false, nullptr,
                     fmt::format("normalises by the mean and the variance of {} rows, in the golden run of {}: the "
                                 "optimizer {}",
                                 read.shape[0], golden.shape[0], gradient));
    finding.of_other_batches = true;
    return true;
  }
  return false;
}

void report_gradient(const CompareFacts& facts, StepFindings& findings, std::uint32_t reader, std::string what,
                     bool is_certain, std::optional<double> factor) {
  if (!is_certain) what += "; the batches have other sizes, and perhaps other rows";
  CompareFinding& finding = findings.add(FindingKind::changed, *facts.pairs.of_target(reader),
                                         facts.target.ops[reader].op, false, nullptr, std::move(what));
  finding.place = reader;
  finding.uncertain = !is_certain;
  finding.of_other_batches = true;
  finding.factor = factor;
}

// Root mean square of the largest.
double largest_of(const CompareFacts& facts, const std::map<std::string_view, Gradient>& golden) {
  double largest = 0;
  for (const auto& [name, gradient] : golden) largest = std::max(largest, facts.rms_of(true, gradient.tensor));
  return largest;
}

// The rest of terms that cancel, as in the gradient of a bias of keys, or numbers too small for the type's precision.
bool is_noise_beside(double largest, const TensorDifference& found) {
  constexpr double kLeastSteps = 4;
  const double rounding = rounding_of(coarser_spacing(found)) * largest;
  const bool cancels = found.rms_error <= rounding && found.rms <= rounding;
  return found.different_non_finite == 0 &&
         (cancels || found.rms_error <= kLeastSteps * least_step_of(found.golden_dtype));
}

// True if every gradient of both could be compared.
bool compare_gradients(const CompareFacts& facts, StepFindings& findings) {
  const std::map<std::string_view, Gradient> mine = read_gradients(facts.target), theirs = read_gradients(facts.golden);
  std::vector<OtherGradient> others;
  bool all = !theirs.empty() && mine.size() == theirs.size();
  for (const auto& [name, golden] : theirs) {
    const auto at = mine.find(name);
    if (at == mine.end()) {
      all = false;
      continue;
    }
    const TensorDifference& found = facts.difference(at->second.tensor, golden.tensor);
    all = all && found.comparable();
    // Sums over parts of a batch are rounded otherwise than a sum over the whole.
    const double rounding = std::max(1e-3, std::min(16 * coarser_spacing(found), 0x1p-4));
    if (!found.comparable() || found.by == ComparedBy::checksum) continue;
    if (found.relative() > rounding || found.different_non_finite > 0) {
      others.push_back({name, at->second, &found, factor_between(found),
                        factor_of_norms(found, *at->second.tensor, *golden.tensor)});
    }
  }
  if (others.empty()) return all;
  const double largest = largest_of(facts, theirs);
  std::erase_if(others, [&](const OtherGradient& one) { return is_noise_beside(largest, *one.difference); });
  if (others.empty()) return all;
  std::ranges::sort(others, {}, [](const OtherGradient& one) { return one.mine.op; });
  const OtherGradient& first = others.front();
  ComparedTensor shown;
  shown.target = first.mine.tensor;
  shown.difference = first.difference;
  std::string what = fmt::format("reads {}: {}", first.name, difference_text(FindingKind::changed, shown));
  const bool one_factor = have_one_factor(others);
  if (others.size() > 1) {
    what += fmt::format("; {} of {} gradients differ{}", others.size(), mine.size(),
                        one_factor ? ", all by this factor" : "");
  }
  const bool all_by_one = one_factor && others.size() == mine.size();
  const auto with_factor =
      std::ranges::find_if(others, [](const OtherGradient& one) { return one.factor.has_value(); });
  if (!all_by_one && report_uneven_parts(facts, findings, what)) return all;
  if (!all_by_one && report_norm_of_parts(facts, findings, what)) return all;
  const std::uint32_t scaling =
      all_by_one ? scaled_by(facts, first.mine, theirs.find(first.name)->second, *with_factor->factor) : kNoOp;
  if (scaling != kNoOp && is_begin_of_backward(facts.target, scaling)) {
    what = "begins the backward pass of a part of the batch that counts as the whole one: the optimizer " + what;
  } else if (scaling != kNoOp) {
    what = "gives the gradients another factor: the optimizer " + what;
  }
  report_gradient(facts, findings, scaling != kNoOp ? scaling : first.mine.op, std::move(what), all_by_one,
                  first.factor);
  return all;
}

}  // namespace

bool leave_other_batches_out(const CompareFacts& facts, StepFindings& findings) {
  if (!findings.has_notes()) return false;
  const bool other_parameters = std::ranges::any_of(findings.all(), [](const CompareFinding& finding) {
    return finding.kind == FindingKind::shape && finding.tensor != nullptr && finding.tensor->target->is_input;
  });
  if (other_parameters) {  // not another batch, but another network
    findings.clear_notes();
    return false;
  }
  std::erase_if(findings.all(), [](const CompareFinding& finding) {
    if (finding.kind != FindingKind::parameter) return true;
    // A norm counts the parts of the batch that it has seen.
    const CatalogTensor& parameter = *finding.tensor->target;
    const bool counts = !is_floating(parameter.dtype) && element_count(parameter.shape) == 1;
    return counts || is_gradient_name(parameter.parameter);
  });
  if (!compare_gradients(facts, findings)) return true;
  findings.clear_notes();
  findings.note_of_both(
      "the batches are cut in another way: the gradients that the optimizer reads and the parameters are compared, and "
      "no other op");
  return true;
}

}  // namespace sonde
