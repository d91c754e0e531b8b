#include "ask/unsharded/explained_error.h"

#include <algorithm>
#include <limits>
#include <set>

#include "ask/unsharded/op_evidence.h"
#include "ground/base/shape.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr double kMostOfGates = 0.25;  // relative: more than rounding
constexpr double kTimesOfDerivative = 8;
constexpr double kSpacingsOfDrift = 4;
constexpr std::uint64_t kManyElements = 64;
constexpr double kUnseenByStatistics = 4;  // an error over what they show of it
constexpr std::size_t kMostMakers = 64;    // ops between a gradient and the optimizer

// The difference of such an op's inputs bounds that of its outputs, however large it is beside the inputs.
bool is_sum_of_parts(OpKind kind) {
  return kind == OpKind::copy || kind == OpKind::exact || kind == OpKind::cast || kind == OpKind::elementwise ||
         kind == OpKind::contraction || kind == OpKind::reduction;
}

// The gradients of a norm's weight and bias are sums over the rows: their terms may cancel.
OpKind kind_of_output(const WorkDone& work, const CatalogTensor& output, const std::vector<InputError>& inputs) {
  const Dims& gradient = inputs.front().difference->golden_shape;
  const bool adds_rows = work.kind == OpKind::normalization && work.is_backward && output.has_shape &&
                         element_count(output.shape) < element_count(gradient);
  return adds_rows ? OpKind::reduction : work.kind;
}

// Rounding opens or closes the gates of elements near 0. The derivative of a function is apart by a few times as much as
// what it is computed from; in a half type that is more than a hundredth.
bool may_be_of_gradients_apart(OpKind kind, const TensorDifference& difference, const std::vector<InputError>& inputs) {
  if (difference.different_non_finite > 0) return false;
  double most = kind == OpKind::selection ? 1 : 0;
  for (const InputError& input : inputs) most = std::max(most, input.difference->relative());
  if (kind != OpKind::selection && !is_half(coarser_spacing(difference))) return false;
  return difference.relative() <= std::min(kMostOfGates, kTimesOfDerivative * most);
}

// The weights of two trainings in a half type drift apart: what an op gives may be apart as what it reads.
bool may_be_drift(const TensorDifference& difference, const std::vector<InputError>& inputs) {
  const double spacing = coarser_spacing(difference);
  if (difference.by != ComparedBy::statistics || !is_half(spacing) || difference.different_non_finite > 0) return false;
  double most = 0;
  for (const InputError& input : inputs) most = std::max(most, input.difference->relative());
  return difference.relative() <= kSpacingsOfDrift * std::min(spacing, most);
}

// Of many elements, the error shows how large it is, of statistics less surely, and not in a half type; few may come near
// each other by chance.
double most_shown_by(const TensorDifference& difference) {
  const bool by_statistics = difference.by == ComparedBy::statistics;
  const bool says_little = by_statistics && is_half(coarser_spacing(difference));
  if (difference.count < kManyElements || says_little) return std::numeric_limits<double>::infinity();
  return (by_statistics ? kUnseenByStatistics : 1) * difference.rms_error;
}

// How far the two runs' gradients are apart, at most, as their makers show. Statistics show less than there is: a rounding
// of the type may be there unseen.
double most_apart(const TensorDifference& made) {
  const double spacing = coarser_spacing(made);
  const bool is_unseen = made.by == ComparedBy::statistics && is_half(spacing);
  return is_unseen ? std::max(made.relative(), spacing) : made.relative();
}

}  // namespace

std::optional<double> explained_error(const WorkDone& work, std::size_t output, const TensorDifference& difference,
                                      const std::vector<ReadBeside>& inputs, double tolerance,
                                      const Tolerances& given) {
  const CompareOp& op = work.last;
  const std::uint32_t slot = op.outputs[output]->slot;
  const auto lists = static_cast<std::uint32_t>(is_list_op(work.type) ? op.outputs.size() : 0);
  std::vector<InputError> errors;
  bool reads_noise = false;
  for (const ReadBeside& input : inputs) {
    if (!feeds_in_list(static_cast<std::uint32_t>(op.inputs.size()), lists, input.slot, slot)) continue;
    if (input.may_be_anything) return std::numeric_limits<double>::infinity();
    if (!input.joined.fits && !input.is_noise) return std::nullopt;
    reads_noise = reads_noise || input.is_noise;
    errors.push_back({&input.joined.difference, input.slot});
  }
  if (errors.empty()) return std::nullopt;
  const OpKind kind = kind_of_output(work, *op.outputs[output], errors);
  const Allowance allowance = allowance_of(work.type, kind, slot, difference, errors, tolerance, given);
  const bool is_bounded = !allowance.anything || is_sum_of_parts(kind);
  if (work.is_backward && !is_bounded && may_be_of_gradients_apart(kind, difference, errors))
    return difference.rms_error;
  if (!is_bounded && may_be_drift(difference, errors)) return difference.rms_error;
  if (!is_bounded && !reads_noise) return std::nullopt;
  if (is_bounded && is_beyond(difference, allowance.total())) return std::nullopt;
  const double allowed = is_bounded ? allowance.total().rms : 0;
  return std::max(difference.rms_error, std::min(allowed, most_shown_by(difference)));
}

bool is_apart_as_made(const WholeStep& step, std::uint32_t golden, const CompareInput& input, const Joined& read) {
  if (step.address(golden).site.place.kind != SiteKind::optimizer) return false;
  if (!read.possible || read.fits || read.difference.different_non_finite > 0) return false;
  double most = 0;
  std::set<std::uint32_t> seen;
  std::vector<std::uint32_t> waiting = {input.from};
  while (!waiting.empty() && seen.size() < kMostMakers) {
    const std::uint32_t at = waiting.back();
    waiting.pop_back();
    if (at == kNoOp || at >= golden || !seen.insert(at).second) continue;
    if (step.label(at).state == WholeStep::State::differs) return false;
    const bool is_gradient = step.address(at).site.place.kind == SiteKind::backward;
    for (const Joined& output : step.label(at).outputs) {
      if (is_gradient && output.fits) most = std::max(most, most_apart(output.difference));
    }
    const bool is_made_here =
        is_gradient && step.label(at).state == WholeStep::State::found && !only_moves(step.golden().ops[at]);
    for (const CompareInput& before : step.golden().ops[at].inputs) {
      if (!is_made_here) waiting.push_back(before.from);
    }
  }
  return read.difference.relative() <= most;
}

}  // namespace sonde
