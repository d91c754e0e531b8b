#include "ask/unsharded/whole_step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ask/unsharded/explained_error.h"
#include "ask/unsharded/other_inputs.h"
#include "ground/base/shape.h"
#include "ground/model/gradient_name.h"
#include "plan/config/op_types.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr double kLeastNoise = 0.125;     // of a tensor that is little but rounding
constexpr double kSpacingsOfNumber = 64;  // of the type: of a number that another op gives
constexpr double kSpacingsElsewhere = 4;  // of a half type, of a call at another place

// Gradients that overflow in both runs: what is left of them depends on the order of sums.
bool overflows_in_both(const Joined& joined) {
  const TensorDifference& difference = joined.difference;
  return joined.possible && difference.non_finite > 0 && difference.golden_non_finite > 0;
}

// An op on a list has a counterpart on a list.
bool lacks_results(const CompareOp& golden, const std::vector<Joined>& outputs) {
  return is_list_op(golden.op->op_type) && !std::ranges::all_of(outputs, &Joined::possible);
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
      joiner_(ranks_, golden_step_, counterparts_, learned.largest),
      labels_(golden_.ops.size()),
      noise_(golden_, learned.noise) {
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) look_at(g);
  doubt_alone();
}

bool WholeStep::has_half_type(std::uint32_t golden) const {
  return std::ranges::any_of(golden_.ops[golden].outputs,
                             [&](const CatalogTensor* output) { return joiner_.is_half_of_both(*output); });
}

bool WholeStep::hides_a_term(std::uint32_t golden) const {
  return has_half_type(golden) && is_addition(shared_type(golden_.ops[golden].op->op_type));
}

// The ranks have other tensors at this place: experts of their own, other parameters of the optimizer.
std::optional<WholeStep::Label> WholeStep::found_alone(std::uint32_t golden, const Counterpart& with) const {
  const auto ranks = static_cast<std::size_t>(std::ranges::count(ranks_, with.stage, &RankStep::stage));
  Counterpart one = with;
  for (std::size_t rank = 0; ranks > 1 && rank < ranks; ++rank) {
    one.alone = rank;
    Label label{State::found, one, joiner_.join_outputs(golden, one)};
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
    label = {state_of_difference(g), all, joiner_.join_outputs(g, all)};
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

// The golden call has several counterparts on each rank, and not one for each micro-batch: in a ring, one for each part of
// the keys. Their results differ from the golden one; the sum of them is compared.
bool WholeStep::is_split(std::uint32_t golden, const Counterpart& with) const {
  const SiteCalls::Address& address = golden_calls_.address(golden);
  const bool is_same_module =
      with.site.place.kind == address.site.place.kind && with.site.module == address.site.module;
  const std::size_t there = with.stride * with.calls;
  const std::size_t expected = golden_calls_.at(address.site)->size() * counterparts_.micro_batches();
  return is_same_module && !address.site.module.empty() && there > expected && there % expected == 0;
}

// The parts of its results are blocks of the golden ones, each of which has as many elements as all its parts.
bool WholeStep::is_of_blocks(std::uint32_t golden, const Label& label) const {
  const std::vector<const CatalogTensor*>& outputs = golden_.ops[golden].outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorParts parts = counterparts_.parts_of(*label.where, {false, outputs[i]->slot});
    std::uint64_t elements = 0;
    for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
      for (std::size_t call = 0; call < parts.calls(); ++call) {
        const CatalogTensor* part = parts.at(rank, call).tensor;
        if (part == nullptr || !part->has_shape) return false;
        elements += element_count(part->shape);
      }
    }
    const std::uint64_t whole = outputs[i]->has_shape ? element_count(outputs[i]->shape) : 0;
    const bool fits = label.outputs[i].fits && label.outputs[i].is_cut && !label.outputs[i].is_sum;
    if (elements != whole && !fits) return false;
  }
  return !outputs.empty();
}

// Each element of a block is made of what the op reads in that block, and it reads what is golden.
bool WholeStep::differs_in_blocks(std::uint32_t golden, const Label& label) const {
  constexpr std::array kKinds = {OpKind::elementwise, OpKind::transcendental, OpKind::exact, OpKind::contraction};
  if (std::ranges::find(kKinds, golden_.ops[golden].kind) == kKinds.end()) return false;
  if (!std::ranges::all_of(label.outputs, &Joined::possible) || !is_of_blocks(golden, label)) return false;
  return std::ranges::all_of(golden_.ops[golden].inputs, [&](const CompareInput& input) {
    if (!input.is_read || !input.tensor->recorded() || input.tensor->constant) return true;
    const Joined read = joiner_.join_input(golden, input, *label.where);
    return read.fits && !read.is_sum;
  });
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

// The tolerance of a half type finds a number among a few others.
bool WholeStep::is_number_by_chance(std::uint32_t golden, const Label& label) const {
  const std::vector<const CatalogTensor*>& outputs = golden_.ops[golden].outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool is_number = outputs[i]->has_shape && outputs[i]->shape.empty();
    const TensorDifference& difference = label.outputs[i].difference;
    if (is_number && difference.relative() > kSpacingsOfNumber * epsilon_of(outputs[i]->dtype)) return true;
  }
  return false;
}

// Results of noise are noise, although two of them may come near each other by chance.
WholeStep::Errors WholeStep::noise_of_found(std::uint32_t golden, const Label& label) const {
  std::vector<Joined> outputs = label.outputs;
  for (Joined& output : outputs) output.fits = false;
  Errors errors = explained(golden, *label.where, outputs);
  if (golden_calls_.address(golden).site.place.kind != SiteKind::forward) return errors;
  // The norm of all gradients, by which they are clipped, is more than the rounding of one.
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const bool is_little = errors[i].value_or(0) < kLeastNoise * outputs[i].difference.rms;
    if (is_little || !is_fed_by_noise(golden, i)) errors[i] = 0;
  }
  return errors;
}

bool WholeStep::is_fed_by_noise(std::uint32_t golden, std::size_t output) const {
  const CompareOp& op = golden_.ops[golden];
  const auto inputs = static_cast<std::uint32_t>(op.inputs.size());
  const auto lists = static_cast<std::uint32_t>(is_list_op(op.op->op_type) ? op.outputs.size() : 0);
  return std::ranges::any_of(op.inputs, [&](const CompareInput& input) {
    return noise_.is_in(input) && feeds_in_list(inputs, lists, input.tensor->slot, op.outputs[output]->slot);
  });
}

// Terms of a gradient that cancel leave little but their rounding, in a half type: the gradient of a bias that has no
// effect. Two of them may fit by the tolerance of such a type, and what is made of them may not.
WholeStep::Errors WholeStep::noise_of_sum(std::uint32_t golden, const Label& label) const {
  const CompareOp& op = golden_.ops[golden];
  const bool is_backward = golden_calls_.address(golden).site.place.kind == SiteKind::backward;
  if (!is_backward || op.kind != OpKind::reduction || !has_half_type(golden)) return {};
  double of_terms = 0;
  for (const CompareInput& input : op.inputs) {
    if (!input.is_read || !input.tensor->recorded() || !input.tensor->has_shape || input.tensor->constant) continue;
    const auto elements = static_cast<double>(element_count(op.outputs.front()->shape));
    const double terms = static_cast<double>(element_count(input.tensor->shape)) / std::max(1.0, elements);
    const double size = joiner_.join_input(golden, input, *label.where).difference.rms;
    of_terms = std::max(of_terms, std::sqrt(terms) * size * epsilon_of(input.tensor->dtype) / 2);
  }
  Errors errors;
  for (const Joined& output : label.outputs) {
    errors.emplace_back(of_terms >= kLeastNoise * output.difference.rms ? of_terms : 0);
  }
  return errors;
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
    Joined joined = joiner_.join_input(golden, input, with);
    const bool is_noise = noise_.explains(input, joined) || is_apart_as_made(*this, golden, input, joined);
    const bool overflows = (!is_forward || is_gradient_name(input.name)) && overflows_in_both(joined);
    inputs.push_back({slot, is_noise, overflows || noise_.may_be_anything(input), std::move(joined)});
  }
  Errors errors;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool differs = outputs[i].possible && !outputs[i].fits;
    errors.push_back(differs ? explained_error(work, i, outputs[i].difference, inputs,
                                               joiner_.tolerance(*op.outputs[i]), options_.tolerance)
                             : 0);
  }
  return errors;
}

void WholeStep::keep(std::uint32_t golden, Label label, const Errors& noise) {
  const std::vector<const CatalogTensor*>& outputs = golden_.ops[golden].outputs;
  const SiteCalls::Address& address = golden_calls_.address(golden);
  // Slots of experts that are in another order in each step say nothing of what is in them.
  const bool is_harmless = learned_.harmless.contains({address.site, address.number});
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
        if (label.state == State::differs && !is_harmless) bad_.insert(parts.at(rank, call).tensor);
      }
    }
  }
  const std::string& module = address.site.module;
  if (label.state == State::found && !module.empty()) counterparts_.learn(module, *label.where);
  labels_[golden] = std::move(label);
}

// It has the factor from a gradient that it reads: the golden op that makes that one may have no counterpart.
bool WholeStep::reads_with_factor(std::uint32_t golden, double factor) const {
  return std::ranges::any_of(golden_.ops[golden].inputs, [&](const CompareInput& input) {
    if (!input.is_read || !input.tensor->recorded() || input.tensor->constant || input.from == kNoOp) return false;
    const Joined read = joiner_.join_input(golden, input, *labels_[golden].where);
    return read.fits && read.factor == factor;
  });
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
    const Joined number = joiner_.join_input(golden, input, *label.where);
    if (number.possible && !number.fits) other_numbers_.push_back({golden, &input, number});
  }
  if (kind != SiteKind::backward) return;
  const SiteCalls::Address& address = golden_calls_.address(golden);
  for (const Joined& output : label.outputs) {
    if (!output.fits) continue;
    if (!before.empty() && !before.contains(output.factor) && !reads_with_factor(golden, output.factor)) {
      factor_changes_.push_back(golden);
    }
    const auto [known, is_new] = learned_.factors.try_emplace({address.site, address.number}, output.factor);
    if (!is_new && known->second != output.factor) new_factors_.push_back({golden, output.factor / known->second});
  }
}

// How many of the op's inputs are those of the golden op. The tolerance of a half type fits too much for a call at
// another place.
std::size_t WholeStep::inputs_in_common(std::uint32_t golden, const Counterpart& with) const {
  return static_cast<std::size_t>(std::ranges::count_if(golden_.ops[golden].inputs, [&](const CompareInput& input) {
    const bool is_number = input.tensor->has_shape && input.tensor->shape.empty();
    if (!input.is_read || !input.tensor->recorded() || is_number) return false;
    const Joined read = joiner_.join_input(golden, input, with);
    if (!read.fits) return false;
    return !joiner_.is_half_of_both(*input.tensor) ||
           read.difference.relative() <= kSpacingsElsewhere * coarser_spacing(read.difference);
  }));
}

// The calls at its own place, as many as golden ones, or of the rank that had it in a step before, are its counterparts
// whatever they give. Others are if they read the same.
std::optional<WholeStep::Label> WholeStep::nearest(std::uint32_t golden,
                                                   const std::vector<Counterpart>& candidates) const {
  const SiteCalls::Address& address = golden_calls_.address(golden);
  if (const auto known = learned_.alone.find({address.site, address.number}); known != learned_.alone.end()) {
    Label label{State::differs, known->second, joiner_.join_outputs(golden, known->second)};
    if (std::ranges::any_of(label.outputs, &Joined::possible)) return label;
  }
  std::optional<Label> best;
  std::size_t most = 0;
  for (const Counterpart& with : candidates) {
    if (with.site.type != address.site.type || counterparts_.is_elsewhere(address.site.module, with)) continue;
    Label label{State::differs, with, joiner_.join_outputs(golden, with)};
    if (with.ring && differs_in_blocks(golden, label)) return label;
    if (with.ring) continue;
    if (std::ranges::none_of(label.outputs, &Joined::possible)) continue;
    if (is_at_its_place(golden, with)) return label;
    if (is_split(golden, with)) continue;
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
    const bool is_of_other_type = with.site.type != wanted.type;
    // Noise is like other noise by chance.
    if (is_of_noise && (is_of_other_type || !is_at_its_place(golden, with))) continue;
    Label label{State::found, with, joiner_.join_outputs(golden, with)};
    if (is_of_other_type && is_number_by_chance(golden, label)) continue;
    if (!is_near(golden, label) || (with.ring && !is_of_blocks(golden, label))) continue;
    if (!all_fit(label.outputs) || (is_of_other_type && lacks_results(golden_.ops[golden], label.outputs))) continue;
    const Errors noise = is_of_noise ? noise_of_found(golden, label) : noise_of_sum(golden, label);
    label.other_inputs = other_inputs(*this, golden, label, is_of_noise);
    if (!label.other_inputs.empty()) label.state = State::differs;
    keep(golden, std::move(label), noise);
    return look_for_factors(golden);
  }
  for (const Counterpart& with : candidates) {
    if (with.site.type != wanted.type) continue;
    std::optional<Label> label = with.ring ? std::nullopt : found_alone(golden, with);
    if (!label) continue;
    // Noise of one rank is like the golden one by chance.
    const Label of_all{State::found, with, joiner_.join_outputs(golden, with)};
    const Errors noise = is_of_noise ? noise_of_found(golden, of_all) : noise_of_sum(golden, of_all);
    return keep(golden, std::move(*label), noise);
  }
  std::optional<Label> label = nearest(golden, candidates);
  if (!label) return noise_.pass_on(golden);
  const Errors noise = explained(golden, *label->where, label->outputs);
  const bool is_explained = std::ranges::all_of(noise, [](const auto& error) { return error.has_value(); });
  // That its error is explained by what it reads says nothing of the block itself.
  if (label->where->ring && is_explained) return noise_.pass_on(golden);
  label->state = is_explained ? State::found : state_of_difference(golden);
  const bool is_unknown = label->state == State::unknown;
  keep(golden, std::move(*label), noise);
  if (is_unknown) noise_.pass_on(golden);
}

}  // namespace sonde
