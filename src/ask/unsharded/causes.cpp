#include "ask/unsharded/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ask/compare/compare_words.h"
#include "ask/compare/maker_of_data.h"
#include "ask/unsharded/earlier_ops.h"
#include "ask/unsharded/effects.h"
#include "ask/unsharded/gradient_factors.h"
#include "ask/unsharded/left_out_ops.h"
#include "ask/unsharded/op_evidence.h"
#include "ask/unsharded/step_before.h"
#include "ground/base/shape.h"
#include "plan/config/op_types.h"

namespace sonde {
namespace {

using State = WholeStep::State;

constexpr double kMostOfRounding = 1e-2;  // relative: of a parameter, after steps that are not compared

std::string words_of_part(const CompareInput& input, const Joined& joined) {
  const std::string_view name = input.tensor->parameter;
  return fmt::format("input.{}{}{} has on each rank {}", input.tensor->slot, name.empty() ? "" : " ", name,
                     joined.is_of_squares ? "the norm of a part" : "a part of a sum");
}

// The parts do not have the shape of the golden tensor, whatever way they are joined.
bool is_of_other_elements(const Joined& joined, const CatalogTensor& golden) {
  return !joined.possible && golden.has_shape && element_count(golden.shape) > 1;
}

class CauseSearch {
 public:
  explicit CauseSearch(const WholeStep& step);

  ShardCauses find();

 private:
  bool is_good(const CompareInput& golden_input) const;
  bool begins_with_other_number(std::uint32_t golden, const CompareInput& input) const;
  struct Seen {                           // of the inputs of an op
    const CompareInput* shown = nullptr;  // that differs
    bool reads_parts = false;             // of which the golden input is not made: a block of it, in a ring
  };
  std::optional<ShardCause> cause_of(std::uint32_t golden) const;
  std::optional<ShardCause> cause_before(const CompareInput& input, ShardCause& cause, Seen& seen) const;
  std::optional<ShardCause> maker_of(const CompareInput& input, const Joined& joined, const ShardCause& cause) const;
  std::optional<ShardCause> cause_behind(const Seen& seen, ShardCause& cause) const;
  bool reads_the_same(std::uint32_t golden) const;
  std::optional<ShardCause> call_with_another_number(std::uint32_t golden) const;
  std::optional<std::uint32_t> op_that_reads(std::size_t rank, std::uint32_t golden, const CompareInput& input) const;
  bool is_part_of_mean(std::uint32_t golden, const CompareInput& input) const;
  std::optional<ShardCause> parameter_before(const ShardCause& cause) const;
  std::optional<ShardCause> parameter_that_differs(std::size_t rank, std::uint32_t op, const CompareInput& input) const;
  void doubt_if_left_so(std::size_t rank, const CompareInput& read, ShardCause& cause) const;
  void show_other_rank(ShardCause& cause) const;

  const WholeStep& step_;
  const CompareSide& golden_;
  const EffectSearch effects_;
  const EarlierOps earlier_;
  const GradientFactors factors_;
  struct Read {
    std::uint32_t op = kNoOp;
    std::size_t place = 0;  // of the input
  };
  std::map<std::string_view, std::vector<Read>> parameters_;  // golden ones: who reads them
};

CauseSearch::CauseSearch(const WholeStep& step)
    : step_(step), golden_(step.golden()), effects_(step), earlier_(step), factors_(step, earlier_) {
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    if (packs_for_collective(golden_.ops[g].op->op_type)) continue;
    for (const CompareInput& input : golden_.ops[g].inputs) {
      const bool is_parameter = input.from == kNoOp && input.is_read && input.tensor->recorded();
      if (is_parameter && input.tensor->parameter.is_parameter()) {
        parameters_[input.tensor->parameter].push_back(
            {g, static_cast<std::size_t>(&input - golden_.ops[g].inputs.data())});
      }
    }
  }
}

bool CauseSearch::is_good(const CompareInput& input) const {
  if (input.from == kNoOp || step_.label(input.from).state == State::found) return true;
  if (effects_.differs(input.from)) return false;
  return std::ranges::all_of(golden_.ops[input.from].inputs, [&](const CompareInput& before) {
    return !before.is_read || before.from == kNoOp || before.from >= input.from || is_good(before);
  });
}

ShardCauses CauseSearch::find() {
  ShardCauses found;
  const std::set<std::string> of_noise =
      is_step_before_unseen(step_) ? parameters_of_noise(step_) : std::set<std::string>();
  std::set<CodePlace> called_otherwise;
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    if (!effects_.differs(g)) {
      std::optional<ShardCause> call = call_with_another_number(g);
      if (call && called_otherwise.insert(step_.address(g).site.place).second) found.causes.push_back(std::move(*call));
      continue;
    }
    const CallSite& site = step_.address(g).site;
    if (site.place.kind == SiteKind::optimizer && of_noise.contains(site.parameter)) continue;
    if (!effects_.has_effect(g)) {
      found.harmless.push_back(g);
      continue;
    }
    const bool good = std::ranges::all_of(golden_.ops[g].inputs,
                                          [&](const CompareInput& input) { return !input.is_read || is_good(input); });
    if (!good) continue;
    std::optional<ShardCause> cause = cause_of(g);
    if (!cause) {
      found.unfollowed.push_back(g);
      continue;
    }
    std::optional<ShardCause> earlier = cause->is_unreduced ? std::nullopt : factors_.cause_by_factor(*cause);
    if (earlier) cause = std::move(earlier);
    found.causes.push_back(std::move(*cause));
  }
  return found;
}

// As far as its tensors are known. Gradients are divided by the number of ranks: those have another factor before.
bool CauseSearch::reads_the_same(std::uint32_t golden) const {
  return std::ranges::all_of(golden_.ops[golden].inputs, [&](const CompareInput& input) {
    if (!input.is_read || !input.tensor->recorded() || input.tensor->constant) return true;
    const Joined read = step_.joiner().join_input(golden, input, *step_.label(golden).where);
    return (read.fits && read.factor == 1) || step_.noise().explains(input, read);
  });
}

// The result is the golden one as far as rounding shows, but the call has another number: the epsilon of a norm, the scale
// of an attention. What loss and gradients are divided by depends on the number of ranks.
std::optional<ShardCause> CauseSearch::call_with_another_number(std::uint32_t golden) const {
  const WholeStep::Label& label = step_.label(golden);
  const CallSite& site = step_.address(golden).site;
  if (label.state != State::found || site.place.kind == SiteKind::backward) return std::nullopt;
  const std::optional<WholeStep::Shown> shown = step_.shown(*label.where);
  const CallSite& there = label.where->site;  // its file may have another name
  const bool is_there = there.place == site.place || (!site.module.empty() && there.module == site.module);
  if (!shown || !is_there || there.type != site.type) return std::nullopt;
  const CatalogOp& op = *step_.ranks()[shown->rank].side->ops[shown->op].op;
  if (fractions_apart(op, *golden_.ops[golden].op).empty()) return std::nullopt;
  if (site.module.empty() && !reads_the_same(golden)) return std::nullopt;
  for (std::size_t i = 0; i < label.outputs.size(); ++i) {
    const Joined& output = label.outputs[i];
    const CatalogTensor* tensor = golden_.ops[golden].outputs[i];
    const bool is_number = tensor->has_shape && tensor->shape.empty();
    if (is_number || !output.possible || output.difference.equal || output.factor != 1) continue;
    ShardCause cause{.kind = FindingKind::number, .golden = golden, .rank = shown->rank, .op = shown->op};
    cause.golden_tensor = tensor;
    cause.joined = output;
    return cause;
  }
  return std::nullopt;
}

// Of the ops of a group: the one with that input.
std::optional<std::uint32_t> CauseSearch::op_that_reads(std::size_t rank, std::uint32_t golden,
                                                        const CompareInput& input) const {
  const CompareInput* read = step_.input_at(rank, golden, input);
  const Counterpart& with = *step_.label(golden).where;
  if (read == nullptr) return std::nullopt;
  for (const std::uint32_t op : (*step_.ranks()[rank].calls.at(with.site))[with.first].ops) {
    const std::vector<CompareInput>& inputs = step_.ranks()[rank].side->ops[op].inputs;
    if (std::ranges::any_of(inputs, [&](const CompareInput& one) { return &one == read; })) return op;
  }
  return std::nullopt;
}

// An op of the step before is to blame, although the tolerance of its type hid it. If that step is not compared, a small
// difference of a parameter, and any of a state, may be what rounding became in it, as where a gradient is nothing else.
void CauseSearch::doubt_if_left_so(std::size_t rank, const CompareInput& read, ShardCause& cause) const {
  const bool is_unseen = is_step_before_unseen(step_) && read.from == kNoOp;
  const bool is_of_optimizer = step_.address(cause.golden).site.place.kind == SiteKind::optimizer;
  if (is_unseen && (is_of_optimizer || cause.joined.difference.relative() < kMostOfRounding)) {
    cause.uncertain = true;
    cause.what = kLeftByUnseenStep;
  }
  if (!was_left_so(step_.ranks()[rank], read)) return;
  cause.uncertain = true;
  cause.what = kLeftSo;
}

// The parameter that the op reads, if the golden one of that name is another one.
std::optional<ShardCause> CauseSearch::parameter_that_differs(std::size_t rank, std::uint32_t op,
                                                              const CompareInput& input) const {
  const auto known = parameters_.find(input.name);
  if (input.from != kNoOp || known == parameters_.end()) return std::nullopt;
  // The backward pass may read it transposed under its name: then another op that does so is beside it.
  const CallSite& site = step_.ranks()[rank].calls.address(op).site;
  const auto reads_alike = [&](const Read& read) {
    const CallSite& golden_site = step_.address(read.op).site;
    return golden_site.place.kind == site.place.kind && golden_site.type == site.type;
  };
  const auto alike = std::ranges::find_if(known->second, reads_alike);
  if (alike == known->second.end() && site.place.kind != SiteKind::forward) return std::nullopt;
  const auto [golden, place] = alike == known->second.end() ? known->second.front() : *alike;
  const CatalogTensor* golden_tensor = golden_.ops[golden].inputs[place].tensor;
  const Joined joined = step_.joiner().join_read(rank, op, input, {golden_.rank, golden_tensor}, SiteKind::forward);
  if (!joined.possible || joined.fits) return std::nullopt;
  const bool is_other =
      !joined.other_ranks.empty() && std::ranges::find(joined.other_ranks, rank) == joined.other_ranks.end();
  if (is_other) return std::nullopt;  // the part of this rank is right
  ShardCause cause{.kind = FindingKind::parameter,
                   .golden = golden,
                   .rank = rank,
                   .op = op,
                   .golden_tensor = golden_tensor,
                   .tensor = input.tensor,
                   .joined = joined};
  doubt_if_left_so(rank, input, cause);
  return cause;
}

// Of the op and those that lead to it: one that reads a parameter with other values. Compiled graphs have other ops than
// the golden run.
std::optional<ShardCause> CauseSearch::parameter_before(const ShardCause& cause) const {
  const std::size_t stage = step_.ranks()[cause.rank].stage;
  for (std::size_t rank = 0; rank < step_.ranks().size(); ++rank) {
    const RankStep& of = step_.ranks()[rank];
    const SiteCalls::Address& address = step_.ranks()[cause.rank].calls.address(cause.op);
    const std::vector<SiteCall>* calls = of.stage == stage ? of.calls.at(address.site) : nullptr;
    if (calls == nullptr || address.number >= calls->size()) continue;
    for (const std::uint32_t op : with_makers(*of.side, (*calls)[address.number].last())) {
      if (packs_for_collective(of.side->ops[op].op->op_type)) continue;
      for (const CompareInput& input : of.side->ops[op].inputs) {
        if (auto found = parameter_that_differs(rank, op, input)) return found;
      }
    }
  }
  return std::nullopt;
}

void CauseSearch::show_other_rank(ShardCause& cause) const {
  if (cause.joined.other_ranks.empty()) return;
  const Counterpart& where = *step_.label(cause.golden).where;
  const std::size_t rank = ranks_to_look_at(step_, cause.golden, cause.joined).front();
  const std::vector<SiteCall>* calls = step_.ranks()[rank].calls.at(where.site);
  if (calls == nullptr || where.first >= calls->size()) return;
  cause.rank = rank;
  cause.op = (*calls)[where.first].last();
}

// The optimizer reads the gradient of each rank's own batch, which was neither added up nor divided.
bool CauseSearch::is_part_of_mean(std::uint32_t golden, const CompareInput& input) const {
  const Counterpart& with = *step_.label(golden).where;
  if (step_.address(golden).site.place.kind != SiteKind::optimizer) return false;
  const Joined mean = step_.joiner().join_input(golden, input, with, SiteKind::backward);
  return mean.fits && mean.is_sum && mean.factor != 1 && mean.difference.by == ComparedBy::values;
}

// The gradient of a loss is a number: what the backward pass begins with may be multiplied before.
bool CauseSearch::begins_with_other_number(std::uint32_t golden, const CompareInput& input) const {
  const bool is_number = input.tensor->has_shape && input.tensor->shape.empty() && is_floating(input.tensor->dtype);
  if (!is_number || input.tensor->slot != 0 || !input.is_read || !input.tensor->recorded()) return false;
  const Joined number = step_.joiner().join_input(golden, input, *step_.label(golden).where);
  return number.possible && (!number.difference.equal || number.factor != 1);
}

// Something before what the op reads here; without it `cause` and `seen` know more.
std::optional<ShardCause> CauseSearch::cause_before(const CompareInput& input, ShardCause& cause, Seen& seen) const {
  const std::uint32_t golden = cause.golden;
  const WholeStep::Label& label = step_.label(golden);
  const bool is_backward = step_.address(golden).site.place.kind == SiteKind::backward;
  if (is_backward && begins_with_other_number(golden, input)) {
    const Joined number = step_.joiner().join_input(golden, input, *label.where);
    if (std::optional<ShardCause> earlier = earlier_.before(golden, input, number)) return earlier;
    cause.uncertain = true;
  }
  if (!input.is_read || !input.tensor->recorded() || input.tensor->constant) return std::nullopt;
  const Joined joined = step_.joiner().join_input(golden, input, *label.where);
  if (joined.fits && (joined.is_sum || joined.is_of_squares)) {
    cause.what = words_of_part(input, joined);
    // In the backward pass what cancels has a mean near any other.
    cause.uncertain = cause.uncertain || (is_backward && joined.is_known_by_mean());
    if (std::optional<ShardCause> collective = earlier_.collective_before(golden, input, joined)) {
      collective->what = cause.what;
      return collective;
    }
  }
  if (!joined.fits && is_part_of_mean(golden, input)) {
    cause.what = words_of_part(input, joined);
    cause.is_unreduced = true;
    return std::nullopt;
  }
  seen.reads_parts = seen.reads_parts || is_of_other_elements(joined, *input.tensor);
  const bool fits = joined.fits && !label.other_inputs.contains(input.tensor);
  if (!joined.possible || fits || step_.noise().explains(input, joined)) return std::nullopt;
  if (std::optional<ShardCause> earlier = maker_of(input, joined, cause)) return earlier;
  cause.uncertain = cause.uncertain || input.from != kNoOp;
  if (input.from != kNoOp || cause.golden_tensor != nullptr) return std::nullopt;
  cause.kind = input.tensor->parameter.is_parameter() ? FindingKind::parameter : FindingKind::data;
  cause.golden_tensor = input.tensor;
  cause.joined = joined;
  seen.shown = &input;
  return std::nullopt;
}

// Of an input that differs.
std::optional<ShardCause> CauseSearch::maker_of(const CompareInput& input, const Joined& joined,
                                                const ShardCause& cause) const {
  const std::uint32_t golden = cause.golden;
  if (std::optional<ShardCause> left_out = left_out_before(step_, golden, input, joined)) return left_out;
  if (std::optional<ShardCause> earlier = earlier_.before(golden, input, joined)) {
    std::optional<ShardCause> beside = earlier->uncertain ? left_out_beside(step_, *earlier) : std::nullopt;
    return beside ? beside : earlier;
  }
  if (std::optional<ShardCause> update = update_before(step_, golden, input, joined)) return update;
  if (std::optional<ShardCause> writer = writer_before(step_, golden, input, joined)) return writer;
  if (std::optional<ShardCause> writer = writer_between(step_, golden, input, joined)) return writer;
  if (input.from == kNoOp) return std::nullopt;
  const ShardCause of_read{
      .golden = golden, .rank = cause.rank, .op = cause.op, .golden_tensor = input.tensor, .joined = joined};
  return factors_.cause_by_factor(of_read);
}

// No input shows it: an op elsewhere, or doubt.
std::optional<ShardCause> CauseSearch::cause_behind(const Seen& seen, ShardCause& cause) const {
  if (cause.uncertain) {
    // Of two shardings the calls that read it may be others.
    std::optional<ShardCause> parameter = step_.golden_step().is_sharded() ? std::nullopt : parameter_before(cause);
    if (parameter) return parameter;
    cause.what = "an op before it without a counterpart may be to blame: what it reads differs";
  } else if (seen.reads_parts) {
    cause.uncertain = true;
    cause.what = "an op before it may be to blame: what it reads cannot be compared";
  } else if (factors_.adds_with_other_factors(cause.golden)) {
    if (std::optional<ShardCause> term = factors_.cause_of_term(cause.golden)) return term;
    cause.uncertain = true;
    cause.what = "an op before it may be to blame: of its terms, one is a number of times the golden one";
  }
  return std::nullopt;
}

std::optional<ShardCause> CauseSearch::cause_of(std::uint32_t golden) const {
  const WholeStep::Label& label = step_.label(golden);
  const std::optional<WholeStep::Shown> target = step_.shown(*label.where);
  if (!target) return std::nullopt;
  ShardCause cause{.golden = golden, .rank = target->rank, .op = target->op};
  Seen seen;
  for (const CompareInput* input : step_.golden_step().inputs_of_call(golden)) {
    if (std::optional<ShardCause> earlier = cause_before(*input, cause, seen)) return earlier;
  }
  if (seen.shown != nullptr) {
    cause.uncertain = false;
    for (const std::size_t rank : ranks_to_look_at(step_, golden, cause.joined)) {
      const CompareInput* read = step_.input_at(rank, golden, *seen.shown);
      if (read != nullptr) doubt_if_left_so(rank, *read, cause);
    }
  } else if (std::optional<ShardCause> behind = cause_behind(seen, cause)) {
    return behind;
  }
  for (std::size_t i = 0; i < label.outputs.size() && cause.golden_tensor == nullptr; ++i) {
    if (!label.outputs[i].possible || label.outputs[i].fits) continue;
    cause.golden_tensor = golden_.ops[golden].outputs[i];
    cause.joined = label.outputs[i];
  }
  if (cause.golden_tensor == nullptr) return std::nullopt;
  if (label.where->ring) {
    cause.uncertain = true;
    cause.what = "a block of the ring differs, maybe on another rank";
  }
  show_other_rank(cause);
  if (seen.shown != nullptr) cause.op = op_that_reads(cause.rank, golden, *seen.shown).value_or(cause.op);
  return cause;
}

}  // namespace

std::vector<std::size_t> ranks_to_look_at(const WholeStep& step, std::uint32_t golden, const Joined& joined) {
  const Counterpart& where = *step.label(golden).where;
  std::vector<std::size_t> of_stage;
  for (std::size_t rank = 0; rank < step.ranks().size(); ++rank) {
    if (step.ranks()[rank].stage == where.stage) of_stage.push_back(rank);
  }
  if (where.alone) return {of_stage[*where.alone]};
  if (joined.other_ranks.empty()) return of_stage;
  std::vector<std::size_t> apart;
  for (const std::size_t number : joined.other_ranks) apart.push_back(of_stage[number]);
  return apart;
}

ShardCauses causes_of(const WholeStep& step) { return CauseSearch(step).find(); }

}  // namespace sonde
