// Ops whose results fit, although they read something else than the golden op: an op before them is on one side alone.
#include <algorithm>

#include "ask/compare/tolerance.h"
#include "ask/unsharded/op_evidence.h"
#include "ask/unsharded/whole_step.h"

namespace sonde {
namespace {

constexpr double kFarSpacings = 8;   // of a half type: more than rounding
constexpr double kNearSpacings = 4;  // as much as several ops round
constexpr double kNearer = 4;        // times

// A sum of parts of which there are statistics alone.
bool is_known_by_mean(const Joined& joined) {
  return joined.possible && joined.is_sum && joined.difference.by == ComparedBy::statistics;
}

// Statistics show little of elements beside infinities, as in scores behind a mask.
bool is_known_little(const Joined& joined) {
  const TensorDifference& difference = joined.difference;
  return is_known_by_mean(joined) ||
         (joined.possible && difference.by == ComparedBy::statistics && !difference.golden_statistics.all_finite());
}

// Within the tolerance, which is wide for a half type, and further apart than rounding.
bool is_far(const Joined& joined) {
  return joined.possible && joined.difference.relative() > kFarSpacings * coarser_spacing(joined.difference);
}

bool is_close(const Joined& joined, const Joined& than) {
  const double relative = joined.difference.relative();
  return joined.possible && joined.fits && relative <= kNearSpacings * coarser_spacing(joined.difference) &&
         kNearer * relative < than.difference.relative();
}

}  // namespace

// The result of a golden op that is in the input, behind ops that only move it; null: none was found.
const Joined* WholeStep::found_maker(const CompareInput& input, std::uint32_t* op) const {
  const CompareInput* at = &input;
  while (at->from != kNoOp && labels_[at->from].state == State::unknown && only_moves(golden_.ops[at->from])) {
    const std::vector<CompareInput>& inputs = golden_.ops[at->from].inputs;
    if (inputs.empty() || (inputs.front().from != kNoOp && inputs.front().from >= at->from)) return nullptr;
    at = &inputs.front();
  }
  if (at->from == kNoOp || labels_[at->from].state != State::found) return nullptr;
  *op = at->from;
  const std::vector<Joined>& outputs = labels_[at->from].outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (golden_.ops[at->from].outputs[i]->slot == at->from_slot) return &outputs[i];
  }
  return nullptr;
}

// It is what its golden maker gives, and that was found, or has no counterpart and is made of such.
bool WholeStep::was_found(const CompareInput& input) const {
  if (input.from == kNoOp) return true;
  if (labels_[input.from].state == State::found) {
    std::uint32_t op = kNoOp;
    const Joined* made = found_maker(input, &op);
    return made != nullptr && made->fits;
  }
  return labels_[input.from].state == State::unknown &&
         std::ranges::all_of(golden_.ops[input.from].inputs, [&](const CompareInput& before) {
           return !before.is_read || (before.from < input.from && was_found(before)) || before.from == kNoOp;
         });
}

// Of parts of a sum, statistics show the mean alone: what is read is apart by rounding that the mean does not show.
bool WholeStep::is_explained_by_maker(const CompareInput& input, const Joined& read) const {
  std::uint32_t op = kNoOp;
  const Joined* made = found_maker(input, &op);
  return made != nullptr && is_known_by_mean(*made) && read.difference.different_non_finite == 0 &&
         read.difference.relative() <= kNearSpacings * coarser_spacing(read.difference);
}

// It is far from the golden input, whose maker was found near, or near to what a golden op reads that was not found.
bool WholeStep::is_far_from_found(std::uint32_t golden, const CompareInput& input, const Counterpart& with,
                                  const Joined& read) const {
  if (!is_far(read)) return false;
  std::uint32_t op = kNoOp;
  if (const Joined* made = found_maker(input, &op)) return is_close(*made, read);
  if (labels_[input.from].state != State::unknown) return false;
  return std::ranges::any_of(golden_.ops[input.from].inputs, [&](const CompareInput& before) {
    const bool is_value = before.is_read && before.tensor->recorded() && !before.tensor->constant;
    if (!is_value || before.tensor->parameter.is_parameter() || !was_found(before)) return false;
    return is_close(join_instead(golden, input, with, *before.tensor), read);
  });
}

// Results that fit may say little: of a sum, of whose parts the mean alone is known, or a masked one; where a half type rounds a term away,
// or hides that results are far apart. `label`: of an op that was found.
void WholeStep::look_for_other_inputs(std::uint32_t golden, Label& label) const {
  if (golden_calls_.address(golden).site.place.kind != SiteKind::forward) return;
  const bool says_little = !golden_step_.is_sharded() && std::ranges::any_of(label.outputs, is_known_little);
  const bool gives_far = has_half_type(golden) && std::ranges::any_of(label.outputs, is_far);
  if (!says_little && !gives_far && !hides_a_term(golden)) return;
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    if (!input.is_read || input.from == kNoOp || !input.tensor->recorded() || !was_found(input)) continue;
    const Joined read = join_input(golden, input, *label.where);
    if (!read.possible || noise_.explains(input, read)) continue;
    const bool is_other = read.fits ? gives_far && is_far_from_found(golden, input, *label.where, read)
                                    : (says_little || hides_a_term(golden)) && !is_explained_by_maker(input, read);
    if (is_other) label.other_inputs.insert(input.tensor);
  }
  if (!label.other_inputs.empty()) label.state = State::differs;
}

}  // namespace sonde
