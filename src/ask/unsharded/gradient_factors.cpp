#include "ask/unsharded/gradient_factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ask/compare/factor.h"
#include "ask/compare/maker_of_data.h"
#include "ask/unsharded/left_out_ops.h"
#include "ask/unsharded/op_evidence.h"
#include "plan/config/op_types.h"
#include "read/operators/collective_call.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr double kSameFactor = 1e-3;     // relative
constexpr double kNearNewFactor = 0.02;  // relative: of gradients that were exchanged in a half type

ShardCause named_with(ShardCause cause, const std::string& what) {
  if (cause.what.empty()) cause.what = what;
  return cause;
}

}  // namespace

// An op of the forward pass that one side alone has, and that makes more than a number.
bool GradientFactors::is_before_loss(const ShardCause& cause) const {
  const bool is_alone = cause.kind == FindingKind::inserted || cause.kind == FindingKind::missing;
  const bool is_number = cause.golden_tensor->has_shape && cause.golden_tensor->shape.empty();
  if (!is_alone || is_number || cause.golden_tensor->parameter.is_parameter()) return false;
  for (std::uint32_t g = 0; g <= cause.golden; ++g) {
    if (step_.address(g).site.place.kind != SiteKind::forward) return false;
  }
  return true;
}

// The first op behind which gradients have another factor than in the steps before, or what leads to it.
std::optional<ShardCause> GradientFactors::by_new_factor(const ShardCause& cause, double factor,
                                                         double tolerance) const {
  bool is_before = false;  // an op that only moves gradients has it already
  for (const WholeStep::NewFactor& change : step_.new_factors()) {
    if (std::abs(change.change / factor - 1) >= tolerance) continue;
    const CompareOp& op = golden_.ops[change.golden];
    if (std::optional<ShardCause> sent = factor_received(change.golden, cause)) return sent;
    if (op.kind != OpKind::copy) {
      std::optional<ShardCause> found = scale_of_loss_left_out(step_, cause);
      if (found) found->uncertain = false;  // the step before had the right factor
      if (!found) found = with_factor(change.golden, change.change);
      if (found) found->uncertain = found->uncertain || is_before;
      return found;
    }
    for (const CompareInput& input : op.inputs) {
      if (is_before || !input.is_read || !input.tensor->recorded() || input.from == kNoOp) continue;
      if (std::optional<ShardCause> earlier = earlier_.before(change.golden, input, cause.joined)) return earlier;
    }
    is_before = true;
  }
  return std::nullopt;
}

std::optional<ShardCause> GradientFactors::cause_by_factor(const ShardCause& cause) const {
  const std::optional<double> factor = factor_between(cause.joined.difference);
  if (is_before_loss(cause)) return std::nullopt;
  if (!factor && step_.joiner().has_halves()) {
    const std::optional<double> near = near_factor_between(cause.joined.difference);
    return near ? by_new_factor(cause, *near, kNearNewFactor) : std::nullopt;
  }
  if (!factor) return std::nullopt;
  for (const WholeStep::OtherNumber& other : step_.other_numbers()) {
    if (std::optional<ShardCause> earlier = earlier_.before(other.golden, *other.input, other.joined)) return earlier;
  }
  if (std::optional<ShardCause> changed = by_new_factor(cause, *factor, kSameFactor)) return changed;
  // Without steps before that have the right factor, the golden op may be one that this run does elsewhere.
  const bool is_collective_named =
      !cause.in_step_before && is_collective(step_.ranks()[cause.rank].side->ops[cause.op].op->op_type);
  if (std::optional<ShardCause> scale =
          cause.uncertain && is_collective_named ? scale_of_loss_left_out(step_, cause) : std::nullopt) {
    return scale;
  }
  if (cause.kind == FindingKind::inserted) return std::nullopt;
  for (const std::uint32_t golden : step_.factor_changes()) {
    for (const Joined& output : step_.label(golden).outputs) {
      if (output.fits && std::abs(output.factor / *factor - 1) < kSameFactor) return with_factor(golden, *factor);
    }
  }
  return std::nullopt;
}

// The golden op's counterpart reads what another rank sent: its op gives gradients the factor.
std::optional<ShardCause> GradientFactors::factor_received(std::uint32_t golden, const ShardCause& cause) const {
  const std::optional<WholeStep::Shown> shown = step_.shown(*step_.label(golden).where);
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    const CompareInput* read = shown ? step_.input_at(shown->rank, golden, input) : nullptr;
    if (read == nullptr || !input.is_read || !input.tensor->recorded()) continue;
    ShardCause found{.golden = golden, .rank = shown->rank, .op = shown->op, .golden_tensor = input.tensor};
    found.joined = cause.joined;
    std::optional<ShardCause> sent = earlier_.before_received(shown->rank, *read, found);
    if (!sent) continue;
    sent->golden = cause.golden;
    sent->golden_tensor = cause.golden_tensor;
    return sent;
  }
  return std::nullopt;
}

// The golden op's counterpart, behind which gradients have that factor.
std::optional<ShardCause> GradientFactors::with_factor(std::uint32_t golden, double factor) const {
  const WholeStep::Label& label = step_.label(golden);
  const std::optional<WholeStep::Shown> shown = step_.shown(*label.where);
  if (!shown || label.outputs.empty()) return std::nullopt;
  ShardCause cause{.golden = golden, .rank = shown->rank, .op = shown->op};
  cause.golden_tensor = golden_.ops[golden].outputs.front();
  cause.joined = label.outputs.front();
  cause.what = fmt::format("a factor: from here on gradients are {:.4g} times what they should be", factor);
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    if (!input.is_read || !input.tensor->recorded() || input.tensor->constant || input.from == kNoOp) continue;
    const Joined read = step_.joiner().join_input(golden, input, *label.where);
    const bool has_factor = read.fits && read.factor != 1 && read.factor == label.outputs.front().factor;
    if (step_.noise().explains(input, read) || (read.fits && !has_factor)) continue;
    // The factor is, or may be, in what it reads.
    if (std::optional<ShardCause> earlier = earlier_.before(golden, input, label.outputs.front())) {
      return named_with(std::move(*earlier), cause.what);
    }
    cause.uncertain = true;
  }
  return cause;
}

bool GradientFactors::adds_with_other_factors(std::uint32_t golden) const {
  const CompareOp& op = golden_.ops[golden];
  if (step_.address(golden).site.place.kind != SiteKind::backward) return false;
  if (!is_addition(shared_type(op.op->op_type))) return false;
  std::set<double> factors;
  for (const CompareInput& input : op.inputs) {
    if (!input.is_read || !input.tensor->recorded() || input.tensor->constant) continue;
    const Joined term = step_.joiner().join_input(golden, input, *step_.label(golden).where);
    if (!term.fits) return false;
    factors.insert(term.factor);
  }
  return factors.size() > 1;
}

std::optional<ShardCause> GradientFactors::cause_of_term(std::uint32_t golden) const {
  const std::set<std::uint32_t> makers = with_makers(golden_, golden);
  for (const WholeStep::NewFactor& change : step_.new_factors()) {
    const bool computes = golden_.ops[change.golden].kind != OpKind::copy;
    if (computes && makers.contains(change.golden)) return with_factor(change.golden, change.change);
  }
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    if (!input.is_read || !input.tensor->recorded() || input.tensor->constant) continue;
    const Joined term = step_.joiner().join_input(golden, input, *step_.label(golden).where);
    std::optional<ShardCause> earlier = earlier_.before(golden, input, term);
    if (!earlier) continue;
    earlier->golden_tensor = golden_.ops[golden].outputs.front();
    earlier->joined = step_.label(golden).outputs.front();
    return earlier;
  }
  return std::nullopt;
}

}  // namespace sonde
