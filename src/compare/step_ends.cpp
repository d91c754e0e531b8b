#include "compare/step_ends.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/shape.h"
#include "compare/tolerance.h"
#include "operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

using Tensors = std::vector<const CatalogTensor*>;
using Named = std::map<std::string_view, const CatalogTensor*>;

std::uint64_t size_of(const CatalogTensor& tensor) {
  return tensor.has_shape ? static_cast<std::uint64_t>(element_count(tensor.shape)) : 0;
}

bool counts(const CatalogTensor& tensor) { return is_floating(tensor.dtype) && tensor.recorded(); }

// The last reading of each: clipping may have written it before.
Named gradients_of(const CompareSide& side) {
  Named gradients;
  for (const CompareOp& op : side.ops) {
    if (phase_of(*op.op) != Phase::optimizer) continue;
    for (const CompareInput& input : op.inputs) {
      if (input.is_read && input.name.ends_with(".grad")) gradients[input.name] = input.tensor;
    }
  }
  return gradients;
}

bool has(const CompareSide& side, Phase phase) {
  return std::ranges::any_of(side.ops, [phase](const CompareOp& op) { return phase_of(*op.op) == phase; });
}

// Scalars from which a backward pass begins. One that is scaled first counts unscaled, too.
std::vector<Tensors> losses_of(const CompareSide& side) {
  std::vector<Tensors> losses;
  const auto add = [&](const CompareInput& input, Tensors& to) {
    const CatalogTensor* loss = input.from == kNoOp ? nullptr : side.output(input.from, input.from_slot);
    if (loss != nullptr && counts(*loss) && size_of(*loss) == 1) to.push_back(loss);
  };
  for (const CompareOp& op : side.ops) {
    if (bare_type(op.op->op_type) != "oneslike" || phase_of(*op.op) == Phase::optimizer) continue;
    for (const CompareInput& input : op.inputs) {
      Tensors loss;
      add(input, loss);
      if (loss.empty()) continue;
      const CompareOp& maker = side.ops[input.from];
      const std::string type = bare_type(maker.op->op_type);
      if (type == "mul" || type == "div") std::ranges::for_each(maker.inputs, [&](const auto& one) { add(one, loss); });
      losses.push_back(loss);
    }
  }
  return losses;
}

// Of ops that read something, in order.
Tensors unread_results(const CompareSide& side, bool of_forward) {
  Tensors results;
  for (const CompareOp& op : side.ops) {
    const Phase phase = phase_of(*op.op);
    const auto is_end = [&](std::uint32_t reader) { return side.ops[reader].outputs.empty(); };  // `item`
    if (op.unwritten || !std::ranges::all_of(op.readers, is_end)) continue;
    if (of_forward && phase != Phase::forward && phase != Phase::outside) continue;
    if (std::ranges::none_of(op.inputs, &CompareInput::is_read)) continue;
    for (const CatalogTensor* output : op.outputs) {
      if (counts(*output) && size_of(*output) > 0) results.push_back(output);
    }
  }
  return results;
}

}  // namespace

StepEnds::StepEnds(const CompareSide& target, const CompareSide& golden, Differences& differences)
    : target_(target), golden_(golden), differences_(differences) {}

// `smallest`: an error below the spacing at this size is the rounding of larger terms.
bool StepEnds::agrees(const CatalogTensor& target, const CatalogTensor& golden, double smallest) {
  const TensorDifference& difference = differences_.of({target_.rank, &target}, {golden_.rank, &golden});
  if (!difference.comparable()) return false;
  if (difference.equal) return true;
  if (difference.by == ComparedBy::checksum || difference.different_non_finite > 0) return false;
  const double spacing = std::max(epsilon_of(difference.dtype), epsilon_of(difference.golden_dtype));
  const double coarsest = epsilon_of(DType::float16);  // coarser types say little in 64 spacings
  const double relative = spacing < coarsest ? kEndRounding * spacing : 4 * spacing;
  return difference.rms_error <= relative * difference.rms || difference.rms_error <= 8 * spacing * smallest;
}

// By name; those whose name only one side has, by their values.
bool StepEnds::gradients_agree() {
  const Named mine = gradients_of(target_), theirs = gradients_of(golden_);
  if (mine.empty() || mine.size() != theirs.size()) return false;
  double largest = 0;
  Tensors left, right;
  std::vector<std::pair<const CatalogTensor*, const CatalogTensor*>> pairs;
  for (const auto& [name, golden] : theirs) {
    const auto target = mine.find(name);
    const TensorOf other = {golden_.rank, golden};
    largest = std::max(largest, differences_.of(other, other).rms);
    if (target == mine.end()) right.push_back(golden);
    if (target != mine.end()) pairs.emplace_back(target->second, golden);
  }
  for (const auto& [name, target] : mine) {
    if (!theirs.contains(name)) left.push_back(target);
  }
  if (!(largest > 0) || !all_agree(left, right, true)) return false;
  return std::ranges::all_of(pairs, [&](const auto& pair) { return agrees(*pair.first, *pair.second, largest); });
}

bool StepEnds::all_agree(const Tensors& target, const Tensors& golden, bool all) {
  if (all && target.size() != golden.size()) return false;
  const bool swap = target.size() > golden.size();
  const Tensors& fewer = swap ? golden : target;
  const Tensors& more = swap ? target : golden;
  std::vector<bool> taken(more.size(), false);
  for (const CatalogTensor* one : fewer) {
    bool found = false;
    for (std::size_t i = 0; i < more.size() && !found; ++i) {
      if (taken[i] || size_of(*more[i]) != size_of(*one)) continue;
      found = swap ? agrees(*more[i], *one, 0) : agrees(*one, *more[i], 0);
      taken[i] = found;
    }
    if (!found) return false;
  }
  return true;
}

// Gradients that agree may come from several losses instead of one: of parts of a batch, or of terms.
bool StepEnds::losses_agree() {
  const std::vector<Tensors> mine = losses_of(target_), theirs = losses_of(golden_);
  if (mine.size() != theirs.size()) return true;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const bool found = std::ranges::any_of(mine[i], [&](const CatalogTensor* target) {
      return std::ranges::any_of(theirs[i], [&](const CatalogTensor* golden) { return agrees(*target, *golden, 0); });
    });
    if (!found) return false;
  }
  return true;
}

// Of each size, those of the side that has fewer: a fused op has results that its parts do not have.
bool StepEnds::results_agree(bool of_forward) {
  const Tensors mine = unread_results(target_, of_forward), theirs = unread_results(golden_, of_forward);
  std::map<std::uint64_t, std::pair<Tensors, Tensors>> by_size;
  for (const CatalogTensor* one : mine) by_size[size_of(*one)].first.push_back(one);
  for (const CatalogTensor* one : theirs) by_size[size_of(*one)].second.push_back(one);
  return std::ranges::all_of(by_size,
                             [&](const auto& one) { return all_agree(one.second.first, one.second.second, false); });
}

bool StepEnds::last_results_agree() {
  const Tensors mine = unread_results(target_, false), theirs = unread_results(golden_, false);
  return !mine.empty() && !theirs.empty() && agrees(*mine.back(), *theirs.back(), 0);
}

bool StepEnds::results_and_gradients_agree() {
  const bool trains = has(target_, Phase::optimizer) || has(golden_, Phase::optimizer);
  if (trains) return gradients_agree() && losses_agree() && results_agree(true);
  return last_results_agree() && results_agree(false);
}

bool StepEnds::updates_agree() {
  Named before;
  for (const CompareOp& op : golden_.ops) {
    if (phase_of(*op.op) == Phase::optimizer) continue;
    for (const CompareInput& input : op.inputs) {
      if (input.from == kNoOp && !input.name.empty()) before.try_emplace(input.name, input.tensor);
    }
  }
  std::size_t compared = 0;
  for (const auto& [name, parameter] : before) {
    const auto mine = target_.written.find(name), theirs = golden_.written.find(name);
    if (mine == target_.written.end() && theirs == golden_.written.end()) continue;
    if (mine == target_.written.end() || theirs == golden_.written.end()) return false;
    const TensorDifference& after =
        differences_.of({target_.rank, mine->second.output}, {golden_.rank, theirs->second.output});
    const TensorDifference& update = differences_.of({golden_.rank, theirs->second.output}, {golden_.rank, parameter});
    if (!after.comparable() || !update.comparable() || after.by == ComparedBy::checksum) return false;
    const double rounding = 2 * epsilon_of(after.golden_dtype) * after.rms;
    if (after.rms_error > rounding + 1e-4 * update.rms_error) return false;
    if (rounding > 0.01 * update.rms_error && !after.equal) return false;
    ++compared;
  }
  return compared > 0;
}

}  // namespace sonde
