#include "ask/unsharded/other_inputs.h"

#include <algorithm>

#include "ask/compare/tolerance.h"
#include "ask/unsharded/op_evidence.h"

namespace sonde {
namespace {

constexpr double kFarSpacings = 8;    // of a half type: more than rounding
constexpr double kNearSpacings = 4;   // as much as several ops round
constexpr double kNearer = 4;         // times
constexpr double kLeastShown = 0.01;  // of an input's error: what a mask lets through of it

// Statistics show little of elements beside infinities, as in scores behind a mask.
bool is_known_little(const Joined& joined) {
  const TensorDifference& difference = joined.difference;
  return joined.is_known_by_mean() ||
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

class OtherInputs {
 public:
  using State = WholeStep::State;

  // `label`: of the op, which was found.
  OtherInputs(const WholeStep& step, std::uint32_t golden, const WholeStep::Label& label)
      : step_(step), golden_(golden), label_(label) {}

  std::set<const CatalogTensor*> find(bool reads_noise) const;

 private:
  const CompareOp& op(std::uint32_t golden) const { return step_.golden().ops[golden]; }
  bool is_forward() const { return step_.address(golden_).site.place.kind == SiteKind::forward; }
  bool moves_gradients() const;
  std::set<const CatalogTensor*> differ_in_whole() const;
  std::set<const CatalogTensor*> find_far() const;
  bool is_hidden_by_size(const CompareInput& input) const;
  const Joined* found_result(const CompareInput& input) const;
  bool was_found(const CompareInput& input) const;
  bool is_explained_by_result(const CompareInput& input, const Joined& read) const;
  bool is_far_from_found(const CompareInput& input, const Joined& read) const;

  const WholeStep& step_;
  const std::uint32_t golden_;
  const WholeStep::Label& label_;
};

// It puts together what the backward pass has made: a flat buffer of all gradients.
bool OtherInputs::moves_gradients() const {
  if (!only_moves(op(golden_))) return false;
  return std::ranges::any_of(op(golden_).inputs, [&](const CompareInput& input) {
    std::uint32_t at = input.from;
    while (at != kNoOp && only_moves(op(at)) && !op(at).inputs.empty() && op(at).inputs.front().from < at) {
      if (step_.address(at).site.place.kind == SiteKind::backward) break;
      at = op(at).inputs.front().from;
    }
    return at != kNoOp && step_.address(at).site.place.kind == SiteKind::backward;
  });
}

// The result of a golden op that is in the input, behind ops that only move it; null: none was found.
const Joined* OtherInputs::found_result(const CompareInput& input) const {
  const CompareInput* at = &input;
  while (at->from != kNoOp && step_.label(at->from).state == State::unknown && only_moves(op(at->from))) {
    const std::vector<CompareInput>& inputs = op(at->from).inputs;
    if (inputs.empty() || (inputs.front().from != kNoOp && inputs.front().from >= at->from)) return nullptr;
    at = &inputs.front();
  }
  if (at->from == kNoOp || step_.label(at->from).state != State::found) return nullptr;
  const std::vector<Joined>& outputs = step_.label(at->from).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (op(at->from).outputs[i]->slot == at->from_slot) return &outputs[i];
  }
  return nullptr;
}

// It is what its golden maker gives, and that was found, or has no counterpart and is made of such.
bool OtherInputs::was_found(const CompareInput& input) const {
  if (input.from == kNoOp) return true;
  if (step_.label(input.from).state == State::found) {
    const Joined* const made = found_result(input);
    return made != nullptr && made->fits;
  }
  return step_.label(input.from).state == State::unknown &&
         std::ranges::all_of(op(input.from).inputs, [&](const CompareInput& before) {
           return !before.is_read || (before.from < input.from && was_found(before)) || before.from == kNoOp;
         });
}

// Of parts of a sum, statistics show the mean alone: what is read is apart by rounding that the mean does not show.
bool OtherInputs::is_explained_by_result(const CompareInput& input, const Joined& read) const {
  const Joined* const made = found_result(input);
  return made != nullptr && made->is_known_by_mean() && read.difference.different_non_finite == 0 &&
         read.difference.relative() <= kNearSpacings * coarser_spacing(read.difference);
}

// It is far from the golden input, whose maker was found near, or near to what a golden op reads that was not found.
bool OtherInputs::is_far_from_found(const CompareInput& input, const Joined& read) const {
  if (!is_far(read)) return false;
  const Joined* const made = found_result(input);
  if (made != nullptr) return (is_forward() || !made->is_known_by_mean()) && is_close(*made, read);
  if (!is_forward() || step_.label(input.from).state != State::unknown) return false;
  return std::ranges::any_of(op(input.from).inputs, [&](const CompareInput& before) {
    const bool is_value = before.is_read && before.tensor->recorded() && !before.tensor->constant;
    if (!is_value || before.tensor->parameter.is_parameter() || !was_found(before)) return false;
    return is_close(step_.joiner().join_instead(golden_, input, *label_.where, *before.tensor), read);
  });
}

// The tolerance of a half type for a gradient may hide that one of the tensors put together in it, or added up, is another
// one.
std::set<const CatalogTensor*> OtherInputs::differ_in_whole() const {
  std::set<const CatalogTensor*> found;
  const bool is_of_several = puts_together(op(golden_)) || step_.hides_a_term(golden_);
  if (!step_.has_half_type(golden_) || !is_of_several || label_.outputs.size() != 1) return found;
  const TensorDifference& whole = label_.outputs.front().difference;
  for (const CompareInput& input : op(golden_).inputs) {
    if (!reads_value(input)) continue;
    const Joined read = step_.joiner().join_input(golden_, input, *label_.where);
    if (!read.possible || read.fits || step_.noise().explains(input, read)) continue;
    if (read.difference.rms_error > kFarSpacings * coarser_spacing(whole) * whole.rms) found.insert(input.tensor);
  }
  return found;
}

// Scores behind a mask of large numbers: the result fits, for it is much larger than what is read, and has its error.
bool OtherInputs::is_hidden_by_size(const CompareInput& input) const {
  const auto hides = [&](const Joined& output, double times) {
    return output.possible && output.difference.by == ComparedBy::values && output.difference.rms > times;
  };
  if (input.from == kNoOp || !reads_value(input) || step_.label(input.from).state != State::found) return false;
  if (std::ranges::none_of(label_.outputs, [&](const Joined& output) { return hides(output, 0); })) return false;
  const Joined read = step_.joiner().join_input(golden_, input, *label_.where);
  if (!read.possible || read.fits || read.difference.different_non_finite > 0) return false;
  if (step_.noise().explains(input, read)) return false;
  return std::ranges::any_of(label_.outputs, [&](const Joined& output) {
    return hides(output, kTimesLarger * read.difference.rms) && output.difference.count == read.difference.count &&
           output.difference.rms_error > kLeastShown * read.difference.rms_error;
  });
}

// Results that fit may say little: of a sum of whose parts the mean alone is known, or of masked scores; where a half type
// rounds a term away, or hides that results are far apart.
std::set<const CatalogTensor*> OtherInputs::find_far() const {
  std::set<const CatalogTensor*> found;
  if (moves_gradients()) return found;
  const bool says_little =
      is_forward() && !step_.golden_step().is_sharded() && std::ranges::any_of(label_.outputs, is_known_little);
  const bool gives_far = step_.has_half_type(golden_) && std::ranges::any_of(label_.outputs, is_far);
  const bool hides = says_little || (is_forward() && step_.hides_a_term(golden_));
  if (!hides && !gives_far) return found;
  for (const CompareInput& input : op(golden_).inputs) {
    if (!input.is_read || input.from == kNoOp || !input.tensor->recorded() || !was_found(input)) continue;
    const Joined read = step_.joiner().join_input(golden_, input, *label_.where);
    if (!read.possible || step_.noise().explains(input, read)) continue;
    const bool is_other =
        read.fits ? gives_far && is_far_from_found(input, read) : hides && !is_explained_by_result(input, read);
    if (is_other) found.insert(input.tensor);
  }
  return found;
}

std::set<const CatalogTensor*> OtherInputs::find(bool reads_noise) const {
  if (step_.address(golden_).site.place.kind == SiteKind::backward) {
    return reads_noise ? std::set<const CatalogTensor*>() : differ_in_whole();
  }
  std::set<const CatalogTensor*> found = reads_noise ? std::set<const CatalogTensor*>() : find_far();
  if (!is_forward()) return found;
  for (const CompareInput& input : op(golden_).inputs) {
    if (is_hidden_by_size(input)) found.insert(input.tensor);
  }
  return found;
}

}  // namespace

std::set<const CatalogTensor*> other_inputs(const WholeStep& step, std::uint32_t golden, const WholeStep::Label& label,
                                            bool reads_noise) {
  return OtherInputs(step, golden, label).find(reads_noise);
}

}  // namespace sonde
