#include "ask/unsharded/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "ask/compare/compare_words.h"
#include "ask/compare/factor.h"
#include "ask/compare/maker_of_data.h"
#include "ask/unsharded/clipped_factor.h"
#include "ask/unsharded/innocent_ops.h"
#include "ask/unsharded/left_out_ops.h"
#include "ask/unsharded/op_evidence.h"
#include "ask/unsharded/origins.h"
#include "ask/unsharded/senders.h"
#include "ask/unsharded/step_before.h"
#include "ground/base/shape.h"
#include "ground/model/gradient_name.h"
#include "plan/config/op_types.h"
#include "read/measure/health.h"
#include "read/operators/collective_call.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

using State = WholeStep::State;

constexpr double kMostHidden = 0.5;   // relative error of gradients that the tolerances of half types may hide together
constexpr double kSameFactor = 1e-3;  // relative
constexpr double kMostOfRounding = 1e-2;  // relative: of a parameter, after steps that are not compared
constexpr int kStepsToCollective = 4;     // a wait, a view, a copy
constexpr double kNearNewFactor = 0.02;   // relative: of gradients that were exchanged in a half type
constexpr double kMostOfUpdate = 0.01;    // relative: an error of it that rounding of the parameter leaves

// Of statistics of parts of a sum: a difference may go through.
bool gives_means_of_sums(const WholeStep::Label& label) {
  return std::ranges::any_of(label.outputs,
                             [](const Joined& output) { return output.fits && output.is_known_by_mean(); });
}

std::string words_of_part(const CompareInput& input, const Joined& joined) {
  const std::string_view name = input.tensor->parameter;
  return fmt::format("input.{}{}{} has on each rank {}", input.tensor->slot, name.empty() ? "" : " ", name,
                     joined.is_of_squares ? "the norm of a part" : "a part of a sum");
}

// The parts do not have the shape of the golden tensor, whatever way they are joined.
bool is_of_other_elements(const Joined& joined, const CatalogTensor& golden) {
  return !joined.possible && golden.has_shape && element_count(golden.shape) > 1;
}

ShardCause named_with(ShardCause cause, const std::string& what) {
  if (cause.what.empty()) cause.what = what;
  return cause;
}

class CauseSearch {
 public:
  explicit CauseSearch(const WholeStep& step);

  ShardCauses find();

 private:
  bool differs(std::uint32_t golden) const;
  bool is_good(const CompareInput& golden_input) const;
  bool hides_by_size(std::uint32_t reader, std::uint32_t golden) const;
  bool has_effect(std::uint32_t golden) const;
  bool may_heal_in_optimizer(std::uint32_t golden) const;
  bool leaves_other_update(std::uint32_t golden) const;
  bool chooses_from_others(std::uint32_t golden) const;
  bool begins_with_other_number(std::uint32_t golden, const CompareInput& input) const;
  bool is_update(std::uint32_t golden) const;
  std::optional<ShardCause> cause_of(std::uint32_t golden) const;
  bool reads_the_same(std::uint32_t golden) const;
  std::optional<ShardCause> call_with_another_number(std::uint32_t golden) const;
  bool is_before_loss(const ShardCause& cause) const;
  std::optional<ShardCause> cause_by_factor(const ShardCause& cause) const;
  // `tolerance`: of the factor, relative.
  std::optional<ShardCause> by_new_factor(const ShardCause& cause, double factor, double tolerance) const;
  std::optional<ShardCause> with_factor(std::uint32_t golden, double factor) const;
  std::optional<ShardCause> factor_received(std::uint32_t golden, const ShardCause& cause) const;
  bool adds_with_other_factors(std::uint32_t golden) const;
  std::optional<ShardCause> cause_of_term(std::uint32_t golden) const;
  std::optional<ShardCause> before(std::uint32_t golden, const CompareInput& input, const Joined& joined) const;
  void choose(const Origins& origins, ShardCause cause, int& best_weight, std::optional<ShardCause>& best) const;
  std::optional<std::uint32_t> op_that_reads(std::size_t rank, std::uint32_t golden, const CompareInput& input) const;
  std::optional<ShardCause> brought_by_others(const ShardCause& cause) const;
  std::optional<ShardCause> sent_by(std::size_t rank, const CompareSide& side, std::uint32_t receive,
                                    const ShardCause& cause) const;
  std::optional<ShardCause> before_received(std::size_t rank, const CompareInput& read, const ShardCause& cause) const;
  std::optional<ShardCause> in_step_before(std::size_t rank, const CompareInput& input, const ShardCause& cause) const;
  std::optional<ShardCause> collective_before(std::uint32_t golden, const CompareInput& input,
                                              const Joined& joined) const;
  bool is_part_of_mean(std::uint32_t golden, const CompareInput& input) const;
  std::optional<ShardCause> parameter_before(const ShardCause& cause) const;
  std::optional<ShardCause> parameter_that_differs(std::size_t rank, std::uint32_t op, const CompareInput& input) const;
  void doubt_if_left_so(std::size_t rank, const CompareInput& read, ShardCause& cause) const;
  void show_other_rank(ShardCause& cause) const;

  const WholeStep& step_;
  const CompareSide& golden_;
  const OriginSearch origins_;
  std::vector<std::vector<std::uint32_t>> readers_;  // of the values, by golden op
  std::vector<bool> of_gradients_;                   // by golden op: it is computed from what the backward pass gives
  std::set<std::uint64_t> read_later_;               // sequence numbers of golden ops: by the step behind this one
  struct Read {
    std::uint32_t op = kNoOp;
    std::size_t place = 0;  // of the input
  };
  std::map<std::string_view, std::vector<Read>> parameters_;  // golden ones: who reads them
};

CauseSearch::CauseSearch(const WholeStep& step)
    : step_(step),
      golden_(step.golden()),
      origins_(step),
      readers_(golden_.ops.size()),
      of_gradients_(golden_.ops.size()),
      read_later_(read_by_step_behind(golden_)) {
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    const bool packs = packs_for_collective(golden_.ops[g].op->op_type);
    of_gradients_[g] = step.address(g).site.place.kind == SiteKind::backward;
    for (const CompareInput& input : golden_.ops[g].inputs) {
      if (input.from != kNoOp && input.is_read) readers_[input.from].push_back(g);
      if (input.from != kNoOp && input.from < g && of_gradients_[input.from]) of_gradients_[g] = true;
      const bool is_parameter = !packs && input.from == kNoOp && input.is_read && input.tensor->recorded();
      if (is_parameter && input.tensor->parameter.is_parameter()) {
        parameters_[input.tensor->parameter].push_back(
            {g, static_cast<std::size_t>(&input - golden_.ops[g].inputs.data())});
      }
    }
  }
}

bool CauseSearch::differs(std::uint32_t golden) const {
  if (step_.label(golden).state != State::differs) return false;
  const SiteCalls::Address& address = step_.address(golden);
  return !step_.learned().harmless.contains({address.site, address.number});
}

bool CauseSearch::is_good(const CompareInput& input) const {
  if (input.from == kNoOp || step_.label(input.from).state == State::found) return true;
  if (differs(input.from)) return false;
  return std::ranges::all_of(golden_.ops[input.from].inputs, [&](const CompareInput& before) {
    return !before.is_read || before.from == kNoOp || before.from >= input.from || is_good(before);
  });
}

// An update without an optimizer of the framework: it is computed from gradients, and another step reads it, or it is in a
// parameter. Data for the next step are none.
bool CauseSearch::is_update(std::uint32_t golden) const {
  const CompareOp& op = golden_.ops[golden];
  if (!of_gradients_[golden]) return false;
  return read_later_.contains(op.op->sequence) || std::ranges::any_of(op.states, [](std::string_view state) {
           return TensorName(state).is_parameter() && !is_gradient_name(state);
         });
}

// A result that is much larger than what differs hides it, as scores behind a mask of large numbers. In the backward pass
// it may be a gradient that is nothing but rounding.
bool CauseSearch::hides_by_size(std::uint32_t reader, std::uint32_t golden) const {
  if (step_.address(reader).site.place.kind != SiteKind::forward) return false;
  const auto error_of = [](const Joined& joined) { return joined.fits ? 0 : joined.difference.rms_error; };
  double error = 0, size = 0;
  for (const Joined& output : step_.label(golden).outputs) {
    error = std::max(error, error_of(output));
    size = std::max(size, output.difference.rms);
  }
  const auto hides = [&](const Joined& output) {
    return output.fits && output.difference.rms > kTimesLarger * size &&
           output.tolerance * output.difference.rms > error;
  };
  return error > 0 && std::ranges::any_of(step_.label(reader).outputs, hides);
}

// Results on the way to an update: another optimizer may compute the same in another order. Not a parameter or state, or
// the last result that is known.
bool CauseSearch::may_heal_in_optimizer(std::uint32_t golden) const {
  const CompareOp& op = golden_.ops[golden];
  const bool is_written = std::ranges::any_of(op.states, [](std::string_view state) { return !state.empty(); });
  return differs(golden) && !is_written && !op.in_place && !readers_[golden].empty();
}

// The update of a parameter may be another one although the parameter, which is larger, fits.
bool CauseSearch::leaves_other_update(std::uint32_t golden) const {
  const CompareOp& op = golden_.ops[golden];
  const WholeStep::Label& label = step_.label(golden);
  if (step_.address(golden).site.place.kind != SiteKind::optimizer || !op.in_place || label.state != State::found)
    return false;
  if (op.outputs.size() != 1 || op.inputs.empty() || op.inputs.front().tensor->shape != op.outputs.front()->shape)
    return true;
  const TensorDifference update =
      difference_of({golden_.rank, op.outputs.front()}, {golden_.rank, op.inputs.front().tensor}, {}, in_order);
  return !update.comparable() || label.outputs.front().difference.rms_error > kMostOfUpdate * update.rms_error;
}

// A choice may be the golden one although what it is made from is not.
bool CauseSearch::chooses_from_others(std::uint32_t golden) const {
  const CompareOp& op = golden_.ops[golden];
  if (!chooses(op) || is_training(golden_) || !step_.label(golden).where) return false;
  return std::ranges::any_of(op.inputs, [&](const CompareInput& input) {
    if (!reads_value(input)) return false;
    const Joined read = step_.joiner().join_input(golden, input, *step_.label(golden).where);
    return read.possible && !read.fits && !step_.noise().explains(input, read);
  });
}

// Whether a difference reaches the end of the step, or an update.
bool CauseSearch::has_effect(std::uint32_t golden) const {
  if (is_hidden_by_clipping(step_, readers_, golden)) return true;
  std::set<std::uint32_t> seen;
  std::vector<std::uint32_t> waiting = {golden};
  while (!waiting.empty()) {
    const std::uint32_t at = waiting.back();
    waiting.pop_back();
    if (!seen.insert(at).second) continue;
    if (!step_.label(at).other_inputs.empty()) return true;
    const bool is_of_optimizer = step_.address(at).site.place.kind == SiteKind::optimizer;
    if (is_of_optimizer && !may_heal_in_optimizer(at)) return true;
    if ((readers_[at].empty() && differs(at)) || is_update(at)) return true;
    for (const std::uint32_t reader : readers_[at]) {
      if (chooses_from_others(reader) || (is_of_optimizer && leaves_other_update(reader))) return true;
      const bool shows = step_.label(reader).state == State::found && !gives_means_of_sums(step_.label(reader));
      if (!shows || hides_by_size(reader, at)) waiting.push_back(reader);
      if (step_.hides_a_term(reader)) return true;
    }
  }
  return false;
}

ShardCauses CauseSearch::find() {
  ShardCauses found;
  const std::set<std::string> of_noise =
      is_step_before_unseen(step_) ? parameters_of_noise(step_) : std::set<std::string>();
  std::set<CodePlace> called_otherwise;
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    if (!differs(g)) {
      std::optional<ShardCause> call = call_with_another_number(g);
      if (call && called_otherwise.insert(step_.address(g).site.place).second) found.causes.push_back(std::move(*call));
      continue;
    }
    const CallSite& site = step_.address(g).site;
    if (site.place.kind == SiteKind::optimizer && of_noise.contains(site.parameter)) continue;
    if (!has_effect(g)) {
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
    std::optional<ShardCause> earlier = cause->is_unreduced ? std::nullopt : cause_by_factor(*cause);
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

// An op of the forward pass that one side alone has, and that makes more than a number.
bool CauseSearch::is_before_loss(const ShardCause& cause) const {
  const bool is_alone = cause.kind == FindingKind::inserted || cause.kind == FindingKind::missing;
  const bool is_number = cause.golden_tensor->has_shape && cause.golden_tensor->shape.empty();
  if (!is_alone || is_number || cause.golden_tensor->parameter.is_parameter()) return false;
  for (std::uint32_t g = 0; g <= cause.golden; ++g) {
    if (step_.address(g).site.place.kind != SiteKind::forward) return false;
  }
  return true;
}

// The first op behind which gradients have another factor than in the steps before, or what leads to it.
std::optional<ShardCause> CauseSearch::by_new_factor(const ShardCause& cause, double factor, double tolerance) const {
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
      if (std::optional<ShardCause> earlier = before(change.golden, input, cause.joined)) return earlier;
    }
    is_before = true;
  }
  return std::nullopt;
}

// Gradients that are a number times the golden ones: by a number that the loss is divided by, or by the op of the
// backward pass behind which they have that factor.
std::optional<ShardCause> CauseSearch::cause_by_factor(const ShardCause& cause) const {
  const std::optional<double> factor = factor_between(cause.joined.difference);
  if (is_before_loss(cause)) return std::nullopt;
  if (!factor && step_.joiner().has_halves()) {
    const std::optional<double> near = near_factor_between(cause.joined.difference);
    return near ? by_new_factor(cause, *near, kNearNewFactor) : std::nullopt;
  }
  if (!factor) return std::nullopt;
  for (const WholeStep::OtherNumber& other : step_.other_numbers()) {
    if (std::optional<ShardCause> earlier = before(other.golden, *other.input, other.joined)) return earlier;
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
std::optional<ShardCause> CauseSearch::factor_received(std::uint32_t golden, const ShardCause& cause) const {
  const std::optional<WholeStep::Shown> shown = step_.shown(*step_.label(golden).where);
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    const CompareInput* read = shown ? step_.input_at(shown->rank, golden, input) : nullptr;
    if (read == nullptr || !input.is_read || !input.tensor->recorded()) continue;
    ShardCause found{.golden = golden, .rank = shown->rank, .op = shown->op, .golden_tensor = input.tensor};
    found.joined = cause.joined;
    std::optional<ShardCause> sent = before_received(shown->rank, *read, found);
    if (!sent) continue;
    sent->golden = cause.golden;
    sent->golden_tensor = cause.golden_tensor;
    return sent;
  }
  return std::nullopt;
}

// The golden op's counterpart, behind which gradients have that factor.
std::optional<ShardCause> CauseSearch::with_factor(std::uint32_t golden, double factor) const {
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
    if (std::optional<ShardCause> earlier = before(golden, input, label.outputs.front())) {
      return named_with(std::move(*earlier), cause.what);
    }
    cause.uncertain = true;
  }
  return cause;
}

// Of the gradients that it adds up, some are a number times the golden ones and others are not: as a mean over the ranks
// all would be.
bool CauseSearch::adds_with_other_factors(std::uint32_t golden) const {
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

// The op that gives a term another factor than in the steps before, or one that only the target has.
std::optional<ShardCause> CauseSearch::cause_of_term(std::uint32_t golden) const {
  const std::set<std::uint32_t> makers = with_makers(golden_, golden);
  for (const WholeStep::NewFactor& change : step_.new_factors()) {
    const bool computes = golden_.ops[change.golden].kind != OpKind::copy;
    if (computes && makers.contains(change.golden)) return with_factor(change.golden, change.change);
  }
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    if (!input.is_read || !input.tensor->recorded() || input.tensor->constant) continue;
    const Joined term = step_.joiner().join_input(golden, input, *step_.label(golden).where);
    std::optional<ShardCause> earlier = before(golden, input, term);
    if (!earlier) continue;
    earlier->golden_tensor = golden_.ops[golden].outputs.front();
    earlier->joined = step_.label(golden).outputs.front();
    return earlier;
  }
  return std::nullopt;
}

// A collective that only moves what the ranks give: the op of any of them before it. It is not sure, unless all give what
// is right.
std::optional<ShardCause> CauseSearch::brought_by_others(const ShardCause& cause) const {
  const RankStep& named = step_.ranks()[cause.rank];
  if (!moves_between_ranks(named.side->ops[cause.op].op->op_type)) return std::nullopt;
  const SiteCalls::Address& address = named.calls.address(cause.op);
  std::optional<ShardCause> best;
  int weight = 0;
  bool are_right = true;
  std::set<std::pair<std::size_t, std::uint32_t>> alone;  // ranks with ops that compute and are not in the golden run
  for (std::size_t rank = 0; rank < step_.ranks().size(); ++rank) {
    const RankStep& of = step_.ranks()[rank];
    const std::vector<SiteCall>* calls = of.stage == named.stage ? of.calls.at(address.site) : nullptr;
    if (calls == nullptr || address.number >= calls->size()) continue;
    for (const CompareInput& given : of.side->ops[(*calls)[address.number].last()].inputs) {
      if (!given.is_read) continue;
      const bool is_made = given.from != kNoOp;
      are_right = are_right && is_made && step_.is_right(of.side->output(given.from, given.from_slot));
      const Origins origins = origins_.of(rank, given, cause, false);
      choose(origins, cause, weight, best);
      for (const std::uint32_t op : origins.seen) {
        const bool computes = !only_moves(of.side->ops[op]) && !is_collective(of.side->ops[op].op->op_type);
        if (computes && origins_.is_more_than_golden(rank, op)) alone.emplace(rank, op);
      }
    }
  }
  if (best) return best;
  ShardCause doubted = cause;
  doubted.uncertain = cause.uncertain || !are_right;
  if (doubted.uncertain && alone.size() == 1) std::tie(doubted.rank, doubted.op) = *alone.begin();
  if (doubted.uncertain) doubted.what = "an op before it, on any rank, may be to blame";
  return doubted;
}

// The op of the rank that sent what this one received.
std::optional<ShardCause> CauseSearch::sent_by(std::size_t rank, const CompareSide& side, std::uint32_t receive,
                                               const ShardCause& cause) const {
  const std::optional<SentPart> part = sent_part(step_, rank, side, receive);
  if (!part) return std::nullopt;
  const Origins origins = origins_.of(part->rank, *part->input, cause, false);
  const RankStep& sender = step_.ranks()[part->rank];
  if (cause.joined.difference.different_non_finite > 0) {
    const std::optional<std::uint32_t> op = first_not_finite(*sender.rank, *sender.side, origins.seen);
    if (!op) return std::nullopt;
    ShardCause found = cause;
    found.kind = FindingKind::inserted;
    found.rank = part->rank;
    found.op = *op;
    return found;
  }
  ShardCause inserted = cause;
  inserted.kind = FindingKind::inserted;
  std::optional<ShardCause> best;
  int weight = 0;
  choose(origins, inserted, weight, best);
  return best;
}

// Where the rank has what it reads from another one, that one's op.
std::optional<ShardCause> CauseSearch::before_received(std::size_t rank, const CompareInput& read,
                                                       const ShardCause& cause) const {
  const CompareSide& side = *step_.ranks()[rank].side;
  const std::uint32_t receive = receive_behind(side, read);
  return receive == kNoOp ? std::nullopt : sent_by(rank, side, receive, cause);
}

// The op of the step before that made the input, if a collective is among the last ones.
std::optional<ShardCause> CauseSearch::in_step_before(std::size_t rank, const CompareInput& input,
                                                      const ShardCause& cause) const {
  const CompareSide* side = step_.ranks()[rank].before.get();
  const std::uint32_t op = side == nullptr ? kNoOp : op_with(*side, input.tensor->source);
  if (op == kNoOp) return std::nullopt;
  std::uint32_t at = op;
  for (int i = 0; i < kStepsToCollective; ++i) {
    if (is_collective(side->ops[at].op->op_type)) {
      ShardCause found = cause;
      found.rank = rank;
      found.op = op;
      found.in_step_before = true;
      if (collective_way(bare_type(side->ops[at].op->op_type)) == CollectiveWay::receive) {
        if (std::optional<ShardCause> sent = sent_by(rank, *side, at, cause)) return sent;
        found.uncertain = true;
        found.what = "an op of the rank that sent it may be to blame";
      }
      if (input.tensor->parameter.is_parameter() && step_.learned().updates_unseen) {
        found.uncertain = true;
        found.what = kUpdateUnseen;
      }
      return found;
    }
    if (side->ops[at].inputs.empty() || side->ops[at].inputs.front().from == kNoOp) break;
    at = side->ops[at].inputs.front().from;
  }
  return std::nullopt;
}

// An op that only some ranks have comes first, then one that computes.
void CauseSearch::choose(const Origins& origins, ShardCause cause, int& best_weight,
                         std::optional<ShardCause>& best) const {
  const std::size_t rank = origins.rank;
  for (const std::uint32_t op : origins.ops) {
    const CompareOp& of = step_.ranks()[rank].side->ops[op];
    const bool computes = of.kind != OpKind::copy && !packs_for_collective(of.op->op_type);
    if (origins.guilty_alone && !computes) continue;
    const int weight = 1 + 2 * !origins_.is_on_all_ranks(rank, op) + computes;
    if (weight <= best_weight || !origins_.is_more_than_golden(rank, op)) continue;
    best_weight = weight;
    cause.rank = rank;
    cause.op = op;
    // A view alone changes nothing, and of several ops any may be to blame. What a collective adds up may be wrong
    // already, by less than the tolerance of a half type.
    const bool may_be_hidden = step_.joiner().has_halves() &&
                               is_collective(step_.ranks()[rank].side->ops[op].op->op_type) &&
                               cause.joined.difference.relative() < kMostHidden;
    cause.uncertain =
        !computes || may_be_hidden || origins_.ops_that_compute(origins, cause) > 1 || adds_up_ranks(step_, rank, op);
    best = cause;
  }
}

// The input differs, although the golden one's maker was found: the op behind those that are right.
std::optional<ShardCause> CauseSearch::before(std::uint32_t golden, const CompareInput& input,
                                              const Joined& joined) const {
  const ShardCause cause{
      .kind = FindingKind::inserted, .golden = golden, .golden_tensor = input.tensor, .joined = joined};
  std::optional<ShardCause> best, guilty;
  int best_weight = 0, guilty_weight = 0;
  for (const std::size_t rank : ranks_to_look_at(step_, golden, joined)) {
    const CompareInput* read = step_.input_at(rank, golden, input);
    if (read == nullptr) continue;
    if (read->from == kNoOp && !best) best = in_step_before(rank, *read, cause);
    if (std::optional<ShardCause> sent = before_received(rank, *read, cause)) return sent;
    const Origins origins = origins_.of(rank, *read, cause, false);
    if (joined.difference.different_non_finite > 0) {
      if (const std::optional<std::uint32_t> op =
              first_not_finite(*step_.ranks()[rank].rank, *step_.ranks()[rank].side, origins.seen)) {
        ShardCause found = cause;
        found.rank = rank;
        found.op = *op;
        return found;
      }
    } else {
      choose(origins_.of(rank, *read, cause, true), cause, guilty_weight, guilty);
    }
    choose(origins, cause, best_weight, best);
  }
  std::optional<ShardCause>& found = guilty ? guilty : best;
  if (found && !found->in_step_before) {
    if (std::optional<ShardCause> brought = brought_by_others(*found)) return brought;
  }
  return found;
}

// A collective that made the input, which should have added up what the ranks have.
std::optional<ShardCause> CauseSearch::collective_before(std::uint32_t golden, const CompareInput& input,
                                                         const Joined& joined) const {
  ShardCause cause{.kind = FindingKind::inserted, .golden = golden, .golden_tensor = input.tensor, .joined = joined};
  for (std::size_t rank = 0; rank < step_.ranks().size(); ++rank) {
    const CompareSide& side = *step_.ranks()[rank].side;
    const CompareInput* read = step_.input_at(rank, golden, input);
    if (read != nullptr && read->from == kNoOp) {
      if (auto before = in_step_before(rank, *read, cause)) return before;
    }
    for (int i = 0; read != nullptr && i < kStepsToCollective && read->from != kNoOp; ++i) {
      const CompareOp& maker = side.ops[read->from];
      const bool waits = bare_type(maker.op->op_type) == "waittensor";
      if (is_collective(maker.op->op_type) && !waits) {
        cause.rank = rank;
        cause.op = read->from;
        return cause;
      }
      if (!waits && maker.kind != OpKind::copy) break;
      read = maker.inputs.empty() ? nullptr : &maker.inputs.front();
    }
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

std::optional<ShardCause> CauseSearch::cause_of(std::uint32_t golden) const {
  const WholeStep::Label& label = step_.label(golden);
  const CompareOp& op = golden_.ops[golden];
  const std::optional<WholeStep::Shown> target = step_.shown(*label.where);
  if (!target) return std::nullopt;
  ShardCause cause{.golden = golden, .rank = target->rank, .op = target->op};
  const CompareInput* shown = nullptr;  // that differs
  const bool is_backward = step_.address(golden).site.place.kind == SiteKind::backward;
  bool reads_parts = false;  // of which the golden input is not made: a block of it, in a ring
  for (const CompareInput* read : step_.golden_step().inputs_of_call(golden)) {
    const CompareInput& input = *read;
    if (is_backward && begins_with_other_number(golden, input)) {
      const Joined number = step_.joiner().join_input(golden, input, *label.where);
      if (std::optional<ShardCause> earlier = before(golden, input, number)) return earlier;
      cause.uncertain = true;
    }
    if (!input.is_read || !input.tensor->recorded() || input.tensor->constant) continue;
    const Joined joined = step_.joiner().join_input(golden, input, *label.where);
    if (joined.fits && (joined.is_sum || joined.is_of_squares)) {
      cause.what = words_of_part(input, joined);
      // In the backward pass what cancels has a mean near any other.
      cause.uncertain = cause.uncertain || (is_backward && joined.is_known_by_mean());
      if (std::optional<ShardCause> collective = collective_before(golden, input, joined)) {
        collective->what = cause.what;
        return collective;
      }
    }
    if (!joined.fits && is_part_of_mean(golden, input)) {
      cause.what = words_of_part(input, joined);
      cause.is_unreduced = true;
      continue;
    }
    reads_parts = reads_parts || is_of_other_elements(joined, *input.tensor);
    const bool fits = joined.fits && !label.other_inputs.contains(input.tensor);
    if (!joined.possible || fits || step_.noise().explains(input, joined)) continue;
    if (std::optional<ShardCause> left_out = left_out_before(step_, golden, input, joined)) return left_out;
    if (std::optional<ShardCause> earlier = before(golden, input, joined)) {
      std::optional<ShardCause> beside = earlier->uncertain ? left_out_beside(step_, *earlier) : std::nullopt;
      return beside ? beside : earlier;
    }
    if (std::optional<ShardCause> update = update_before(step_, golden, input, joined)) return update;
    if (std::optional<ShardCause> writer = writer_before(step_, golden, input, joined)) return writer;
    if (std::optional<ShardCause> writer = writer_between(step_, golden, input, joined)) return writer;
    if (input.from != kNoOp) {
      const ShardCause of_read{
          .golden = golden, .rank = target->rank, .op = target->op, .golden_tensor = input.tensor, .joined = joined};
      if (std::optional<ShardCause> earlier = cause_by_factor(of_read)) return earlier;
    }
    cause.uncertain = cause.uncertain || input.from != kNoOp;
    if (input.from != kNoOp || cause.golden_tensor != nullptr) continue;
    cause.kind = input.tensor->parameter.is_parameter() ? FindingKind::parameter : FindingKind::data;
    cause.golden_tensor = input.tensor;
    cause.joined = joined;
    shown = &input;
  }
  if (shown != nullptr) {
    cause.uncertain = false;
    for (const std::size_t rank : ranks_to_look_at(step_, golden, cause.joined)) {
      const CompareInput* read = step_.input_at(rank, golden, *shown);
      if (read != nullptr) doubt_if_left_so(rank, *read, cause);
    }
  } else if (cause.uncertain) {
    // Of two shardings the calls that read it may be others.
    std::optional<ShardCause> parameter = step_.golden_step().is_sharded() ? std::nullopt : parameter_before(cause);
    if (parameter) return parameter;
    cause.what = "an op before it without a counterpart may be to blame: what it reads differs";
  } else if (reads_parts) {
    cause.uncertain = true;
    cause.what = "an op before it may be to blame: what it reads cannot be compared";
  }
  if (shown == nullptr && !cause.uncertain && adds_with_other_factors(golden)) {
    if (std::optional<ShardCause> term = cause_of_term(golden)) return term;
    cause.uncertain = true;
    cause.what = "an op before it may be to blame: of its terms, one is a number of times the golden one";
  }
  for (std::size_t i = 0; i < label.outputs.size() && cause.golden_tensor == nullptr; ++i) {
    if (!label.outputs[i].possible || label.outputs[i].fits) continue;
    cause.golden_tensor = op.outputs[i];
    cause.joined = label.outputs[i];
  }
  if (cause.golden_tensor == nullptr) return std::nullopt;
  if (label.where->ring) {
    cause.uncertain = true;
    cause.what = "a block of the ring differs, maybe on another rank";
  }
  show_other_rank(cause);
  if (shown != nullptr) cause.op = op_that_reads(cause.rank, golden, *shown).value_or(cause.op);
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
