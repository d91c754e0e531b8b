#include "ask/unsharded/whole_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ask/unsharded/common_factor.h"
#include "ask/unsharded/explained_error.h"
#include "ask/unsharded/other_inputs.h"
#include "ground/model/gradient_name.h"
#include "plan/config/op_types.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr double kSpacings = 64;          // of rounding, as for the ends of a step
constexpr double kSpacingsOfCoarser = 4;  // of two runs in different types
constexpr double kMostTolerance = 1e-2;
constexpr double kSpacingsElsewhere = 4;  // of a half type, of a call at another place
constexpr double kLeastSteps = 8;         // of rounding, between numbers too small for the type's precision

std::vector<double> factors_of(std::size_t parts) {
  std::vector<double> factors = {1};
  for (std::size_t i = 2; i <= parts; ++i) {
    if (parts % i != 0) continue;
    factors.push_back(static_cast<double>(i));
    factors.push_back(1 / static_cast<double>(i));
  }
  return factors;
}

// Of the results of all ops.
double coarsest_spacing(const std::vector<RankStep>& ranks) {
  double coarsest = 0;
  for (const RankStep& rank : ranks) {
    for (const CompareOp& op : rank.side->ops) {
      for (const CatalogTensor* output : op.outputs) coarsest = std::max(coarsest, epsilon_of(output->dtype));
    }
  }
  return coarsest;
}

// Gradients that overflow in both runs: what is left of them depends on the order of sums.
bool overflows_in_both(const Joined& joined) {
  const TensorDifference& difference = joined.difference;
  return joined.possible && difference.non_finite > 0 && difference.golden_non_finite > 0;
}

// An op on a list has a counterpart on a list.
bool lacks_results(const CompareOp& golden, const std::vector<Joined>& outputs) {
  return is_list_op(golden.op->op_type) && !std::ranges::all_of(outputs, &Joined::possible);
}

bool are_single_ops(const GoldenStep& step, std::uint32_t golden, const SiteCall& target) {
  return step.ops_of_call(golden).size() == 1 && target.ops.size() == 1;
}

bool all_fit(const std::vector<Joined>& outputs) {
  bool any = false;
  for (const Joined& output : outputs) {
    if (output.possible && !output.fits) return false;
    any = any || output.fits;
  }
  return any;
}

}  // namespace

WholeStep::WholeStep(const std::vector<RankStep>& ranks, const std::vector<RankStep>& golden,
                     const CompareOptions& options, Learned& learned)
    : ranks_(ranks),
      golden_step_(golden),
      golden_(golden_step_.side()),
      options_(options),
      learned_(learned),
      golden_calls_(golden_step_.calls()),
      counterparts_(ranks_, golden_step_, learned.modules),
      labels_(golden_.ops.size()),
      noise_(golden_, learned.noise) {
  tolerance_ = std::min(8 * learned.largest, kMostTolerance);
  const double own = coarsest_spacing(ranks_), of_golden = coarsest_spacing(golden);
  is_other_type_ = own != of_golden;
  if (is_other_type_) tolerance_ = std::max(tolerance_, kSpacingsOfCoarser * std::max(own, of_golden));
  if (const std::optional<double> factor = common_factor_of_gradients(*this)) {
    most_in_optimizer_ = std::abs(*factor - 1) / 2;
  }
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) look_at(g);
  doubt_alone();
}

bool WholeStep::is_half_of_both(const CatalogTensor& golden) const {
  return !is_other_type_ && is_half(epsilon_of(golden.dtype));
}

bool WholeStep::has_half_type(std::uint32_t golden) const {
  return std::ranges::any_of(golden_.ops[golden].outputs,
                             [&](const CatalogTensor* output) { return is_half_of_both(*output); });
}

bool WholeStep::hides_a_term(std::uint32_t golden) const {
  return has_half_type(golden) && is_addition(shared_type(golden_.ops[golden].op->op_type));
}

JoinLimits WholeStep::limits_of(const CatalogTensor& golden, SiteKind kind) const {
  JoinLimits limits;
  const double spacing = epsilon_of(golden.dtype);
  limits.tolerance = std::max(tolerance_, kSpacings * spacing);
  if (kind == SiteKind::optimizer && most_in_optimizer_) {
    limits.tolerance = std::min(limits.tolerance, *most_in_optimizer_);
  }
  limits.golden_sums = kind != SiteKind::optimizer;  // gradients are added up before
  limits.least = kLeastSteps * least_step_of(golden.dtype);
  if (is_half_of_both(golden)) {
    limits.spacing = spacing;
    limits.least_step = least_step_of(golden.dtype);
    limits.by_statistics_too = kind == SiteKind::forward;  // terms of gradients cancel: what is left may be rounding
  }
  const bool is_number = golden.has_shape && golden.shape.empty();
  if (kind == SiteKind::backward || (kind == SiteKind::forward && is_number)) {
    limits.factors = factors_of(ranks_.size() * micro_batches() * golden_step_.ranks());
  }
  return limits;
}

Joined WholeStep::joined(const TensorParts& parts, const TensorOf& golden, SiteKind kind) const {
  JoinLimits limits = limits_of(*golden.tensor, kind);
  const TensorParts of_golden = golden_step_.parts_of(golden);
  Joined whole = join(parts, of_golden, limits);
  if (!whole.problem.empty()) problems_.insert(whole.problem);
  // In the forward pass only a mean over the ranks, of either side, has a factor.
  if (kind != SiteKind::forward || whole.factor == 1 || whole.is_sum || whole.golden_is_sum) return whole;
  limits.factors = {1};
  return join(parts, of_golden, limits);
}

std::vector<Joined> WholeStep::join_outputs(std::uint32_t golden, const Counterpart& with) const {
  std::vector<Joined> outputs;
  for (const CatalogTensor* tensor : golden_.ops[golden].outputs) {
    Joined& output = outputs.emplace_back();
    if (!tensor->recorded()) continue;
    const SiteKind kind = golden_calls_.address(golden).site.place.kind;
    output = joined(counterparts_.parts_of(with, {false, tensor->slot}), {golden_.rank, tensor}, kind);
  }
  return outputs;
}

// The ranks have other tensors at this place: experts of their own, other parameters of the optimizer.
std::optional<WholeStep::Label> WholeStep::found_alone(std::uint32_t golden, const Counterpart& with) const {
  const auto ranks = static_cast<std::size_t>(std::ranges::count(ranks_, with.stage, &RankStep::stage));
  Counterpart one = with;
  for (std::size_t rank = 0; ranks > 1 && rank < ranks; ++rank) {
    one.alone = rank;
    Label label{State::found, one, join_outputs(golden, one)};
    if (all_fit(label.outputs) && is_near(golden, label)) return label;
  }
  return std::nullopt;
}

// One rank's tensor was found alone, and those of the others at that place were not: then it is a part, unless a step
// before has shown that they have something else there.
void WholeStep::doubt_alone() {
  for (std::uint32_t g = 0; g < labels_.size(); ++g) {
    Label& label = labels_[g];
    if (!label.where || !label.where->alone || label.state != State::found) continue;
    const SiteCalls::Address& address = golden_calls_.address(g);
    if (learned_.alone.contains({address.site, address.number})) continue;
    Counterpart all = *label.where;
    all.alone.reset();
    bool is_part = false;
    for (std::size_t i = 0; i < label.outputs.size(); ++i) {
      if (!label.outputs[i].possible) continue;
      const TensorParts parts = counterparts_.parts_of(all, {false, golden_.ops[g].outputs[i]->slot});
      for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
        const CatalogTensor* other = parts.at(rank, 0).tensor;
        is_part = is_part || (other != nullptr && !good_.contains(other));
      }
    }
    if (!is_part) {
      learned_.alone.emplace(std::pair(address.site, address.number), *label.where);
      continue;
    }
    label = {state_of_difference(g), all, join_outputs(g, all)};
    const Errors noise = explained(g, all, label.outputs);
    if (std::ranges::all_of(noise, [](const auto& error) { return error.has_value(); })) {
      label.state = State::found;
      keep(g, Label(label), noise);
    }
  }
}

// Other programs look at the same elements in other shapes.
WholeStep::State WholeStep::state_of_difference(std::uint32_t golden) const {
  const bool is_copy = std::ranges::all_of(golden_step_.ops_of_call(golden),
                                           [&](std::uint32_t op) { return golden_.ops[op].kind == OpKind::copy; });
  return is_copy ? State::unknown : State::differs;
}

bool WholeStep::reads_noise(std::uint32_t golden) const {
  return std::ranges::any_of(golden_.ops[golden].inputs,
                             [&](const CompareInput& input) { return input.is_read && noise_.is_in(input); });
}

// The call at the golden op's own place, where both have as many.
bool WholeStep::is_at_its_place(std::uint32_t golden, const Counterpart& with) const {
  const SiteCalls::Address& address = golden_calls_.address(golden);
  return with.site.place == address.site.place && with.stride == golden_calls_.at(address.site)->size() &&
         with.first == address.number && !counterparts_.is_elsewhere(address.site.module, with);
}

// Blocks of a network have results like each other's, as far as half types show: a call at another place must be nearer.
bool WholeStep::is_near(std::uint32_t golden, const Label& label) const {
  if (!has_half_type(golden) || is_at_its_place(golden, *label.where)) return true;
  const bool is_elsewhere = counterparts_.is_elsewhere(golden_calls_.address(golden).site.module, *label.where);
  return std::ranges::all_of(label.outputs, [&](const Joined& output) {
    const TensorDifference& difference = output.difference;
    if (is_elsewhere && difference.by == ComparedBy::statistics) return false;
    return !output.possible || difference.relative() <= kSpacingsElsewhere * coarser_spacing(difference);
  });
}

// Results of noise are noise, although two of them may come near each other by chance.
WholeStep::Errors WholeStep::noise_of_found(std::uint32_t golden, const Label& label) const {
  std::vector<Joined> outputs = label.outputs;
  for (Joined& output : outputs) output.fits = false;
  return explained(golden, *label.where, outputs);
}

// For each output, the error that is explained.
WholeStep::Errors WholeStep::explained(std::uint32_t golden, const Counterpart& with,
                                       const std::vector<Joined>& outputs) const {
  const bool is_forward = golden_calls_.address(golden).site.place.kind == SiteKind::forward;
  const bool is_group = golden_step_.ops_of_call(golden).size() > 1;
  const CompareOp& op = golden_.ops[golden];
  const std::string& type = golden_calls_.address(golden).site.type;
  const bool is_backward = golden_calls_.address(golden).site.place.kind == SiteKind::backward;
  const WorkDone work =
      is_group ? WorkDone{op, type, kind_of(type), is_backward} : WorkDone{op, op.op->op_type, op.kind, is_backward};
  std::vector<ReadBeside> inputs;
  std::uint32_t place = 0;
  for (const CompareInput* read : golden_step_.inputs_of_call(golden)) {
    const CompareInput& input = *read;
    const std::uint32_t slot = is_group ? place++ : input.tensor->slot;
    if (!input.is_read || !input.tensor->recorded() || epsilon_of(input.tensor->dtype) == 0) continue;
    Joined joined = join_input(golden, input, with);
    const bool is_noise = noise_.explains(input, joined) || is_apart_as_made(*this, golden, input, joined);
    const bool overflows = (!is_forward || is_gradient_name(input.name)) && overflows_in_both(joined);
    inputs.push_back({slot, is_noise, overflows || noise_.may_be_anything(input), std::move(joined)});
  }
  Errors errors;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool differs = outputs[i].possible && !outputs[i].fits;
    errors.push_back(differs ? explained_error(work, i, outputs[i].difference, inputs, tolerance_, options_.tolerance)
                             : 0);
  }
  return errors;
}

void WholeStep::keep(std::uint32_t golden, Label label, const Errors& noise) {
  const std::vector<const CatalogTensor*>& outputs = golden_.ops[golden].outputs;
  for (std::size_t i = 0; i < label.outputs.size(); ++i) {
    if (!label.outputs[i].possible) continue;
    const Joined& output = label.outputs[i];
    const double relative = output.difference.relative();
    if (output.fits && std::isfinite(relative)) learned_.largest = std::max(learned_.largest, relative);
    noise_.set(golden, i, i < noise.size() ? noise[i].value_or(0) : 0);
    const TensorParts parts = counterparts_.parts_of(*label.where, {false, outputs[i]->slot});
    for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
      for (std::size_t call = 0; call < parts.calls(); ++call) {
        if (label.state == State::found) good_.insert(parts.at(rank, call).tensor);
        if (label.state == State::differs) bad_.insert(parts.at(rank, call).tensor);
      }
    }
  }
  const std::string& module = golden_calls_.address(golden).site.module;
  if (label.state == State::found && !module.empty()) counterparts_.learn(module, *label.where);
  labels_[golden] = std::move(label);
}

// A number that the op reads is not the golden one, although its result may be it times a factor. And gradients that
// have another factor than those that they are computed from.
void WholeStep::look_for_factors(std::uint32_t golden) {
  const Label& label = labels_[golden];
  const SiteKind kind = golden_calls_.address(golden).site.place.kind;
  std::set<double> before;
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    if (!input.is_read) continue;
    if (input.from != kNoOp) {
      for (const Joined& output : labels_[input.from].outputs) before.insert(output.factor);
    }
    const bool is_number = input.tensor->has_shape && input.tensor->shape.empty() && !input.tensor->constant;
    if (kind != SiteKind::forward || !is_number || !input.tensor->recorded()) continue;
    const Joined number = join_input(golden, input, *label.where);
    if (number.possible && !number.fits) other_numbers_.push_back({golden, &input, number});
  }
  if (kind != SiteKind::backward) return;
  const SiteCalls::Address& address = golden_calls_.address(golden);
  for (const Joined& output : label.outputs) {
    if (!output.fits) continue;
    if (!before.empty() && !before.contains(output.factor)) factor_changes_.push_back(golden);
    const auto [known, is_new] = learned_.factors.try_emplace({address.site, address.number}, output.factor);
    if (!is_new && known->second != output.factor) new_factors_.push_back({golden, output.factor / known->second});
  }
}

// How many of the op's inputs are those of the golden op.
std::size_t WholeStep::inputs_in_common(std::uint32_t golden, const Counterpart& with) const {
  return static_cast<std::size_t>(std::ranges::count_if(golden_.ops[golden].inputs, [&](const CompareInput& input) {
    const bool is_number = input.tensor->has_shape && input.tensor->shape.empty();
    return input.is_read && input.tensor->recorded() && !is_number && join_input(golden, input, with).fits;
  }));
}

// The calls at its own place, as many as golden ones, or of the rank that had it in a step before, are its counterparts
// whatever they give. Others are if they read the same.
std::optional<WholeStep::Label> WholeStep::nearest(std::uint32_t golden,
                                                   const std::vector<Counterpart>& candidates) const {
  const SiteCalls::Address& address = golden_calls_.address(golden);
  if (const auto known = learned_.alone.find({address.site, address.number}); known != learned_.alone.end()) {
    Label label{State::differs, known->second, join_outputs(golden, known->second)};
    if (std::ranges::any_of(label.outputs, &Joined::possible)) return label;
  }
  std::optional<Label> best;
  std::size_t most = 0;
  for (const Counterpart& with : candidates) {
    if (with.site.type != address.site.type || counterparts_.is_elsewhere(address.site.module, with)) continue;
    Label label{State::differs, with, join_outputs(golden, with)};
    if (std::ranges::none_of(label.outputs, &Joined::possible)) continue;
    if (is_at_its_place(golden, with)) return label;
    const std::size_t common = inputs_in_common(golden, with);
    if (common <= most) continue;
    most = common;
    best = std::move(label);
  }
  return best;
}

void WholeStep::look_at(std::uint32_t golden) {
  // How a golden run that is sharded moves its data is its own matter: what reads the results is compared.
  const std::string_view type = golden_.ops[golden].op->op_type;
  const std::vector<std::uint32_t>& ops = golden_step_.ops_of_call(golden);
  if (ops.empty() || ops.back() != golden || is_collective(type) || packs_for_collective(type)) {
    return noise_.pass_on(golden);
  }
  const CallSite& wanted = golden_calls_.address(golden).site;
  const std::vector<Counterpart> candidates = counterparts_.of(golden);
  const bool is_of_noise = reads_noise(golden);
  for (const Counterpart& with : candidates) {
    if (is_of_noise && !is_at_its_place(golden, with)) continue;  // noise is like other noise by chance
    Label label{State::found, with, join_outputs(golden, with)};
    const bool is_of_other_type = with.site.type != wanted.type;
    if (!is_near(golden, label)) continue;
    if (!all_fit(label.outputs) || (is_of_other_type && lacks_results(golden_.ops[golden], label.outputs))) continue;
    const Errors noise = is_of_noise ? noise_of_found(golden, label) : Errors();
    if (!is_of_noise) label.other_inputs = other_inputs(*this, golden, label);
    if (!label.other_inputs.empty()) label.state = State::differs;
    keep(golden, std::move(label), noise);
    return look_for_factors(golden);
  }
  for (const Counterpart& with : candidates) {
    if (with.site.type != wanted.type) continue;
    if (std::optional<Label> label = found_alone(golden, with)) return keep(golden, std::move(*label));
  }
  std::optional<Label> label = nearest(golden, candidates);
  if (!label) return noise_.pass_on(golden);
  const Errors noise = explained(golden, *label->where, label->outputs);
  const bool is_explained = std::ranges::all_of(noise, [](const auto& error) { return error.has_value(); });
  label->state = is_explained ? State::found : state_of_difference(golden);
  const bool is_unknown = label->state == State::unknown;
  keep(golden, std::move(*label), noise);
  if (is_unknown) noise_.pass_on(golden);
}

// By slot; where one of the two is several ops, which may read in another order, by values.
WholeStep::InputBeside WholeStep::beside(std::uint32_t golden, const CompareInput& input,
                                         const Counterpart& with) const {
  const auto join_at = [&](const CallSlot& slot) {
    return joined(counterparts_.parts_of(with, slot), {golden_.rank, input.tensor},
                  golden_calls_.address(golden).site.place.kind);
  };
  const CallSlot own{true, input.tensor->slot};
  const std::optional<Shown> target = counterparts_.shown(with);
  if (!target) return {own, join_at(own)};
  const RankStep& of = ranks_[target->rank];
  const SiteCall& call = of.calls.at(with.site)->at(with.first);
  if (are_single_ops(golden_step_, golden, call)) return {own, join_at(own)};
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

const CompareInput* WholeStep::input_at(std::size_t rank, std::uint32_t golden, const CompareInput& input) const {
  const Counterpart& with = *labels_[golden].where;
  const RankStep& of = ranks_[rank];
  const std::vector<SiteCall>* calls = counterparts_.is_of(with, rank) ? of.calls.at(with.site) : nullptr;
  if (calls == nullptr || with.first >= calls->size()) return nullptr;
  const SiteCall& call = (*calls)[with.first];
  const std::vector<const CompareInput*> inputs = inputs_of(*of.side, call);
  std::size_t place = 0;
  if (are_single_ops(golden_step_, golden, call)) {
    place = static_cast<std::size_t>(&input - golden_.ops[golden].inputs.data());
  } else {
    const std::uint32_t slot = beside(golden, input, with).slot.number;
    const auto is_it = [&](const CompareInput* one) { return one->tensor->slot == slot; };
    place = call.ops.size() > 1 ? slot : static_cast<std::size_t>(std::ranges::find_if(inputs, is_it) - inputs.begin());
  }
  return place < inputs.size() ? inputs[place] : nullptr;
}

Joined WholeStep::join_input(std::uint32_t golden, const CompareInput& input, const Counterpart& with) const {
  return beside(golden, input, with).joined;
}

Joined WholeStep::join_input(std::uint32_t golden, const CompareInput& input, const Counterpart& with,
                             SiteKind kind) const {
  return joined(counterparts_.parts_of(with, beside(golden, input, with).slot), {golden_.rank, input.tensor}, kind);
}

Joined WholeStep::join_instead(std::uint32_t golden, const CompareInput& input, const Counterpart& with,
                               const CatalogTensor& other) const {
  const TensorParts parts = counterparts_.parts_of(with, beside(golden, input, with).slot);
  return joined(parts, {golden_.rank, &other}, golden_calls_.address(golden).site.place.kind);
}

// Calls for each parameter are not of a micro-batch, although the number of micro-batches may divide theirs.
Joined WholeStep::join_read(std::size_t rank, std::uint32_t op, const CompareInput& input, const TensorOf& golden,
                            SiteKind kind) const {
  Joined of_batches = join_read(rank, counterparts_.of(rank, op, true), input, golden, kind);
  if (of_batches.fits || micro_batches() == 1) return of_batches;
  Joined of_one = join_read(rank, counterparts_.of(rank, op, false), input, golden, kind);
  return of_one.fits ? of_one : of_batches;
}

Joined WholeStep::join_read(std::size_t rank, const Counterpart& with, const CompareInput& input,
                            const TensorOf& golden, SiteKind kind) const {
  const TensorParts parts = counterparts_.parts_of(with, {true, input.tensor->slot});
  Joined whole = joined(parts, golden, kind);
  if (whole.fits || parts.ranks() == 1) return whole;
  Joined alone = joined(parts.of_rank(counterparts_.number_in_stage(rank)), golden, kind);
  return alone.fits || !whole.possible ? alone : whole;
}

}  // namespace sonde
