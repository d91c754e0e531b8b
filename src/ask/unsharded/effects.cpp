#include "ask/unsharded/effects.h"

#include <algorithm>

#include "ask/unsharded/clipped_factor.h"
#include "ask/unsharded/op_evidence.h"
#include "ask/unsharded/step_before.h"
#include "ground/model/gradient_name.h"

namespace sonde {
namespace {

using State = WholeStep::State;

constexpr double kMostOfUpdate = 0.01;  // relative: an error of it that rounding of the parameter leaves

// Of statistics of parts of a sum: a difference may go through.
bool gives_means_of_sums(const WholeStep::Label& label) {
  return std::ranges::any_of(label.outputs,
                             [](const Joined& output) { return output.fits && output.is_known_by_mean(); });
}

}  // namespace

EffectSearch::EffectSearch(const WholeStep& step)
    : step_(step),
      golden_(step.golden()),
      readers_(golden_.ops.size()),
      of_gradients_(golden_.ops.size()),
      read_later_(read_by_step_behind(golden_)) {
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    of_gradients_[g] = step.address(g).site.place.kind == SiteKind::backward;
    for (const CompareInput& input : golden_.ops[g].inputs) {
      if (input.from != kNoOp && input.is_read) readers_[input.from].push_back(g);
      if (input.from != kNoOp && input.from < g && of_gradients_[input.from]) of_gradients_[g] = true;
    }
  }
}

bool EffectSearch::differs(std::uint32_t golden) const {
  if (step_.label(golden).state != State::differs) return false;
  const SiteCalls::Address& address = step_.address(golden);
  return !step_.learned().harmless.contains({address.site, address.number});
}

// An update without an optimizer of the framework: it is computed from gradients, and another step reads it, or it is in a
// parameter. Data for the next step are none.
bool EffectSearch::is_update(std::uint32_t golden) const {
  const CompareOp& op = golden_.ops[golden];
  if (!of_gradients_[golden]) return false;
  return read_later_.contains(op.op->sequence) || std::ranges::any_of(op.states, [](std::string_view state) {
           return TensorName(state).is_parameter() && !is_gradient_name(state);
         });
}

// A result that is much larger than what differs hides it, as scores behind a mask of large numbers. In the backward pass
// it may be a gradient that is nothing but rounding.
bool EffectSearch::hides_by_size(std::uint32_t reader, std::uint32_t golden) const {
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
bool EffectSearch::may_heal_in_optimizer(std::uint32_t golden) const {
  const CompareOp& op = golden_.ops[golden];
  const bool is_written = std::ranges::any_of(op.states, [](std::string_view state) { return !state.empty(); });
  return differs(golden) && !is_written && !op.in_place && !readers_[golden].empty();
}

// The update of a parameter may be another one although the parameter, which is larger, fits.
bool EffectSearch::leaves_other_update(std::uint32_t golden) const {
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
bool EffectSearch::chooses_from_others(std::uint32_t golden) const {
  const CompareOp& op = golden_.ops[golden];
  if (!chooses(op) || is_training(golden_) || !step_.label(golden).where) return false;
  return std::ranges::any_of(op.inputs, [&](const CompareInput& input) {
    if (!reads_value(input)) return false;
    const Joined read = step_.joiner().join_input(golden, input, *step_.label(golden).where);
    return read.possible && !read.fits && !step_.noise().explains(input, read);
  });
}

// Whether a difference reaches the end of the step, or an update.
bool EffectSearch::has_effect(std::uint32_t golden) const {
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

}  // namespace sonde
