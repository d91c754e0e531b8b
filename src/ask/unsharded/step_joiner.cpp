#include "ask/unsharded/step_joiner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ask/compare/tolerance.h"
#include "ask/unsharded/common_factor.h"
#include "ask/unsharded/op_evidence.h"
#include "plan/config/op_types.h"
#include "read/operators/collective_call.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr double kSpacings = 64;          // of rounding, as for the ends of a step
constexpr double kSpacingsOfCoarser = 4;  // of two runs in different types
constexpr double kMostTolerance = 1e-2;
constexpr double kLeastSteps = 8;  // of rounding, between numbers too small for the type's precision

std::vector<double> factors_of(std::size_t parts) {
  std::vector<double> factors = {1};
  for (std::size_t i = 2; i <= parts; ++i) {
    if (parts % i != 0) continue;
    factors.push_back(static_cast<double>(i));
    factors.push_back(1 / static_cast<double>(i));
  }
  return factors;
}

double coarsest_of(const CompareOp& op) {
  double coarsest = 0;
  for (const CatalogTensor* output : op.outputs) coarsest = std::max(coarsest, epsilon_of(output->dtype));
  return coarsest;
}

// Of the results of all ops.
double coarsest_spacing(const std::vector<RankStep>& ranks) {
  double coarsest = 0;
  for (const RankStep& rank : ranks) {
    for (const CompareOp& op : rank.side->ops) coarsest = std::max(coarsest, coarsest_of(op));
  }
  return coarsest;
}

bool may_add_up(std::string_view op_type) {
  const bool is_of_all = is_collective(op_type) && collective_way(bare_type(op_type)) == CollectiveWay::all;
  return is_of_all && !moves_between_ranks(op_type) && bare_type(op_type) != "waittensor";
}

// In which a pass is computed, or all of it. What is only moved in a half type, as activations from stage to stage, is rounded by a cast
// that the other run may not have.
double coarsest_computed(const std::vector<RankStep>& ranks, std::optional<Phase> phase) {
  double coarsest = 0;
  for (const RankStep& rank : ranks) {
    for (const CompareOp& op : rank.side->ops) {
      const bool computes = !only_moves(op) || may_add_up(op.op->op_type);
      if (computes && (!phase || phase_of(*op.op) == *phase)) coarsest = std::max(coarsest, coarsest_of(op));
    }
  }
  return coarsest;
}

bool is_euclidean_norm(const CatalogOp& op) {
  if (!gives_norm(bare_type(op.op_type))) return false;
  return std::ranges::all_of(std::array{"ord", "p"}, [&](std::string_view name) {
    return attribute_of(op, name) == nullptr || number_in(op, name) == 2;
  });
}

// One tensor may have another type in the two runs: a policy of FSDP casts parameters that autocast leaves as they are.
void limit_by_types(const TensorParts& parts, const CatalogTensor& golden, JoinLimits& limits) {
  double own = 0;
  for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
    const CatalogTensor* part = parts.at(rank, 0).tensor;
    if (part != nullptr) own = std::max(own, epsilon_of(part->dtype));
  }
  const double spacing = epsilon_of(golden.dtype), coarser = std::max(own, spacing);
  if (own == spacing || std::min(own, spacing) == 0 || !is_half(coarser)) return;
  limits.tolerance = std::max(std::min(limits.tolerance, kMostTolerance), kSpacingsOfCoarser * coarser);
  limits.spacing = 0;
  limits.least_step = 0;
  limits.by_statistics_too = false;
}

bool are_single_ops(const GoldenStep& step, std::uint32_t golden, const SiteCall& target) {
  return step.ops_of_call(golden).size() == 1 && target.ops.size() == 1;
}

// The golden run may have as many micro-batches as the ranks, and divide each loss where they divide the gradients.
std::size_t losses_in(const CompareSide& side) {
  const auto losses = std::ranges::count_if(side.ops, [](const CompareOp& op) {
    return begins_backward(op.op->op_type) && phase_of(*op.op) != Phase::optimizer;
  });
  return std::max<std::size_t>(1, static_cast<std::size_t>(losses));
}

}  // namespace

StepJoiner::StepJoiner(const std::vector<RankStep>& ranks, const GoldenStep& golden, const Counterparts& counterparts,
                       double largest)
    : ranks_(ranks), golden_(golden), counterparts_(counterparts), losses_(losses_in(golden.side())) {
  tolerance_ = std::min(8 * largest, kMostTolerance);
  const double own = coarsest_spacing(ranks_), of_golden = coarsest_spacing(golden_.all());
  is_other_type_ = own != of_golden;
  has_halves_ = is_half(std::max(own, of_golden));
  const auto tolerance_in = [&](std::optional<Phase> phase) {
    const double computed = coarsest_computed(ranks_, phase), there = coarsest_computed(golden_.all(), phase);
    return computed == there ? tolerance_ : std::max(tolerance_, kSpacingsOfCoarser * std::max(computed, there));
  };
  // Gradients alone may be exchanged in a half type: that says nothing of the passes.
  of_network_alone_ = tolerance_in(Phase::forward);
  of_backward_alone_ = std::max(of_network_alone_, tolerance_in(Phase::backward));
  tolerance_ = tolerance_in(std::nullopt);
  look_for_norms();
  look_for_passes();
  if (const std::optional<double> factor = common_factor_of_gradients(*this)) {
    most_in_optimizer_ = std::abs(*factor - 1) / 2;
  }
}

// The results of norms, also put together by other ops.
void StepJoiner::look_for_norms() {
  const CompareSide& side = golden_.side();
  for (std::uint32_t g = 0; g < side.ops.size(); ++g) {
    const CompareOp& op = side.ops[g];
    const bool are_norms = is_euclidean_norm(*op.op);
    bool only_norms = only_moves(op) && !op.inputs.empty();
    for (const CompareInput& input : op.inputs) {
      const CatalogTensor* made =
          input.from == kNoOp || input.from >= g ? nullptr : side.output(input.from, input.from_slot);
      const bool is_norm = made != nullptr && norms_.contains(made);
      if (is_norm) norms_.insert(input.tensor);
      only_norms = only_norms && (is_norm || !input.is_read);
    }
    if (are_norms || only_norms) norms_.insert(op.outputs.begin(), op.outputs.end());
  }
}

void StepJoiner::look_for_passes() {
  const CompareSide& side = golden_.side();
  for (std::uint32_t g = 0; g < side.ops.size(); ++g) {
    const CallSite& site = golden_.calls().address(g).site;
    const bool is_of_network = site.place.kind == SiteKind::forward && !site.module.empty();
    if (!is_of_network && site.place.kind != SiteKind::backward) continue;
    std::set<const CatalogTensor*>& of_pass = is_of_network ? of_network_ : of_backward_;
    for (const CompareInput& input : side.ops[g].inputs) of_pass.insert(input.tensor);
    of_pass.insert(side.ops[g].outputs.begin(), side.ops[g].outputs.end());
  }
}

double StepJoiner::tolerance(const CatalogTensor& golden) const {
  if (of_network_.contains(&golden)) return of_network_alone_;
  return of_backward_.contains(&golden) ? of_backward_alone_ : tolerance_;
}

bool StepJoiner::is_half_of_both(const CatalogTensor& golden) const {
  return !is_other_type_ && is_half(epsilon_of(golden.dtype));
}

JoinLimits StepJoiner::limits_of(const CatalogTensor& golden, SiteKind kind) const {
  JoinLimits limits;
  const double spacing = epsilon_of(golden.dtype);
  limits.tolerance = std::max(tolerance(golden), kSpacings * spacing);
  if (kind == SiteKind::optimizer && most_in_optimizer_) {
    limits.tolerance = std::min(limits.tolerance, *most_in_optimizer_);
  }
  limits.golden_sums = kind != SiteKind::optimizer;  // gradients are added up before
  limits.are_norms = norms_.contains(&golden);
  limits.least = kLeastSteps * least_step_of(golden.dtype);
  if (is_half_of_both(golden)) {
    limits.spacing = spacing;
    limits.least_step = least_step_of(golden.dtype);
    limits.by_statistics_too = kind == SiteKind::forward;  // terms of gradients cancel: what is left may be rounding
  }
  const bool is_number = golden.has_shape && golden.shape.empty();
  if (kind == SiteKind::backward || (kind == SiteKind::forward && is_number)) {
    limits.factors = factors_of(ranks_.size() * std::max(counterparts_.micro_batches(), losses_) * golden_.ranks());
  }
  return limits;
}

Joined StepJoiner::joined(const TensorParts& parts, const TensorOf& golden, SiteKind kind) const {
  JoinLimits limits = limits_of(*golden.tensor, kind);
  limit_by_types(parts, *golden.tensor, limits);
  const TensorParts of_golden = golden_.parts_of(golden);
  Joined whole = join(parts, of_golden, limits);
  if (!whole.problem.empty()) problems_.insert(whole.problem);
  // In the forward pass only a mean over the ranks, of either side, has a factor.
  if (kind != SiteKind::forward || whole.factor == 1 || whole.is_sum || whole.golden_is_sum) return whole;
  limits.factors = {1};
  return join(parts, of_golden, limits);
}

std::vector<Joined> StepJoiner::join_outputs(std::uint32_t golden, const Counterpart& with) const {
  std::vector<Joined> outputs;
  for (const CatalogTensor* tensor : golden_.side().ops[golden].outputs) {
    Joined& output = outputs.emplace_back();
    if (!tensor->recorded()) continue;
    const SiteKind kind = golden_.calls().address(golden).site.place.kind;
    output = joined(counterparts_.parts_of(with, {false, tensor->slot}), {golden_.side().rank, tensor}, kind);
  }
  return outputs;
}

// By slot; where one of the two is several ops, which may read in another order, by values.
StepJoiner::InputBeside StepJoiner::beside(std::uint32_t golden, const CompareInput& input,
                                           const Counterpart& with) const {
  const auto join_at = [&](const CallSlot& slot) {
    return joined(counterparts_.parts_of(with, slot), {golden_.side().rank, input.tensor},
                  golden_.calls().address(golden).site.place.kind);
  };
  const CallSlot own{true, input.tensor->slot};
  const std::optional<Counterparts::Shown> target = counterparts_.shown(with);
  if (!target) return {own, join_at(own)};
  const RankStep& of = ranks_[target->rank];
  const SiteCall& call = of.calls.at(with.site)->at(with.first);
  if (are_single_ops(golden_, golden, call)) return {own, join_at(own)};
  const std::vector<const CompareInput*> inputs = inputs_of(*of.side, call);
  const bool is_parameter = input.tensor->parameter.is_parameter();
  const bool any_alike = std::ranges::any_of(
      inputs, [&](const CompareInput* one) { return one->tensor->parameter.is_parameter() == is_parameter; });
  InputBeside nearest{{true, static_cast<std::uint32_t>(-1)}, {}};
  double least = std::numeric_limits<double>::infinity();
  for (std::uint32_t i = 0; i < inputs.size() && !nearest.joined.fits; ++i) {
    if (any_alike && inputs[i]->tensor->parameter.is_parameter() != is_parameter) continue;
    const CallSlot slot{true, call.ops.size() > 1 ? i : inputs[i]->tensor->slot};
    Joined found = join_at(slot);
    if (!found.possible) continue;
    const double relative = found.difference.relative();
    const double error = found.fits ? -1 : std::isfinite(relative) ? relative : std::numeric_limits<double>::max();
    if (error >= least) continue;
    least = error;
    nearest = {slot, std::move(found)};
  }
  return nearest;
}

const CompareInput* StepJoiner::input_at(std::size_t rank, std::uint32_t golden, const CompareInput& input,
                                         const Counterpart& with) const {
  const RankStep& of = ranks_[rank];
  const std::vector<SiteCall>* calls = counterparts_.is_of(with, rank) ? of.calls.at(with.site) : nullptr;
  if (calls == nullptr || with.first >= calls->size()) return nullptr;
  const SiteCall& call = (*calls)[with.first];
  const std::vector<const CompareInput*> inputs = inputs_of(*of.side, call);
  std::size_t place = 0;
  if (are_single_ops(golden_, golden, call)) {
    place = static_cast<std::size_t>(&input - golden_.side().ops[golden].inputs.data());
  } else {
    const std::uint32_t slot = beside(golden, input, with).slot.number;
    const auto is_it = [&](const CompareInput* one) { return one->tensor->slot == slot; };
    place = call.ops.size() > 1 ? slot : static_cast<std::size_t>(std::ranges::find_if(inputs, is_it) - inputs.begin());
  }
  return place < inputs.size() ? inputs[place] : nullptr;
}

Joined StepJoiner::join_input(std::uint32_t golden, const CompareInput& input, const Counterpart& with) const {
  return beside(golden, input, with).joined;
}

Joined StepJoiner::join_input(std::uint32_t golden, const CompareInput& input, const Counterpart& with,
                              SiteKind kind) const {
  return joined(counterparts_.parts_of(with, beside(golden, input, with).slot), {golden_.side().rank, input.tensor},
                kind);
}

Joined StepJoiner::join_instead(std::uint32_t golden, const CompareInput& input, const Counterpart& with,
                                const CatalogTensor& other) const {
  const TensorParts parts = counterparts_.parts_of(with, beside(golden, input, with).slot);
  return joined(parts, {golden_.side().rank, &other}, golden_.calls().address(golden).site.place.kind);
}

Joined StepJoiner::join_with_part(std::uint32_t golden, const CompareInput& input, const Counterpart& with,
                                  std::size_t rank, const CatalogTensor& part) const {
  TensorParts parts = counterparts_.parts_of(with, beside(golden, input, with).slot);
  const std::size_t number = counterparts_.number_in_stage(rank);
  if (!counterparts_.is_of(with, rank) || parts.calls() != 1 || number >= parts.ranks()) return {};
  const CatalogTensor* own = parts.at(number, 0).tensor;
  if (own == nullptr || own->shape != part.shape) return {};
  parts.set(number, 0, {ranks_[rank].rank, &part});
  return joined(parts, {golden_.side().rank, input.tensor}, golden_.calls().address(golden).site.place.kind);
}

// Calls for each parameter are not of a micro-batch, although the number of micro-batches may divide theirs.
Joined StepJoiner::join_read(std::size_t rank, std::uint32_t op, const CompareInput& input, const TensorOf& golden,
                             SiteKind kind) const {
  Joined of_batches = join_read(rank, counterparts_.of(rank, op, true), input, golden, kind);
  if (of_batches.fits || counterparts_.micro_batches() == 1) return of_batches;
  Joined of_one = join_read(rank, counterparts_.of(rank, op, false), input, golden, kind);
  return of_one.fits ? of_one : of_batches;
}

Joined StepJoiner::join_read(std::size_t rank, const Counterpart& with, const CompareInput& input,
                             const TensorOf& golden, SiteKind kind) const {
  const TensorParts parts = counterparts_.parts_of(with, {true, input.tensor->slot});
  Joined whole = joined(parts, golden, kind);
  if (whole.fits || parts.ranks() == 1) return whole;
  Joined alone = joined(parts.of_rank(counterparts_.number_in_stage(rank)), golden, kind);
  return alone.fits || !whole.possible ? alone : whole;
}

}  // namespace sonde
