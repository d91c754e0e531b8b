#include "ask/compare/step_ends.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "ask/compare/tolerance.h"
#include "ground/base/shape.h"
#include "ground/model/gradient_name.h"
#include "read/operators/collective_call.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"
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
      if (input.is_read && is_gradient_name(input.name)) gradients[input.name] = input.tensor;
    }
  }
  return gradients;
}

bool is_rounding(double rms_error, double rms, double spacing, double smallest) {
  const double coarsest = epsilon_of(DType::float16);  // coarser types say little in 64 spacings
  const double relative = spacing < coarsest ? kEndRounding * spacing : 4 * spacing;
  return rms_error <= relative * rms || rms_error <= 8 * spacing * smallest;
}

// Of the type in which most products are kept, if that is coarser than float32; else 0.
double spacing_of_products(const CompareSide& side) {
  std::size_t all = 0;
  std::map<DType, std::size_t> halves;
  for (const CompareOp& op : side.ops) {
    if (op.kind != OpKind::contraction || op.outputs.empty() || !is_floating(op.outputs[0]->dtype)) continue;
    ++all;
    if (epsilon_of(op.outputs[0]->dtype) > epsilon_of(DType::float32)) ++halves[op.outputs[0]->dtype];
  }
  for (const auto& [dtype, count] : halves) {
    if (2 * count > all) return epsilon_of(dtype);
  }
  return 0;
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
    if (!begins_backward(op.op->op_type) || phase_of(*op.op) == Phase::optimizer) continue;
    for (const CompareInput& input : op.inputs) {
      Tensors loss;
      add(input, loss);
      if (loss.empty()) continue;
      const CompareOp& maker = side.ops[input.from];
      const OpWork work = work_of(bare_type(maker.op->op_type));
      const bool is_scaled = work == OpWork::multiply || work == OpWork::divide;
      if (is_scaled) std::ranges::for_each(maker.inputs, [&](const auto& one) { add(one, loss); });
      losses.push_back(loss);
    }
  }
  return losses;
}

// Ops that compute nothing of the step: they make data, or move data and what was there before, as for the next step.
std::vector<bool> ops_of_data(const CompareSide& side) {
  std::vector<bool> makes_data(side.ops.size(), false);
  for (std::size_t i = 0; i < side.ops.size(); ++i) {
    const CompareOp& op = side.ops[i];
    const bool reads = std::ranges::any_of(op.inputs, &CompareInput::is_read);
    const auto is_data = [&](const CompareInput& in) { return !in.is_read || in.from == kNoOp || makes_data[in.from]; };
    makes_data[i] = !reads || (moves_or_casts(op.kind) && std::ranges::all_of(op.inputs, is_data));
  }
  return makes_data;
}

// Of ops that read something, in order.
Tensors unread_results(const CompareSide& side, bool of_forward, bool only_computed = false) {
  Tensors results;
  const std::vector<bool> makes_data = only_computed ? ops_of_data(side) : std::vector<bool>(side.ops.size(), false);
  for (std::size_t i = 0; i < side.ops.size(); ++i) {
    const CompareOp& op = side.ops[i];
    const Phase phase = phase_of(*op.op);
    const auto is_end = [&](std::uint32_t reader) { return side.ops[reader].outputs.empty(); };  // `item`
    if (op.unwritten || makes_data[i] || !std::ranges::all_of(op.readers, is_end)) continue;
    if (of_forward && phase != Phase::forward && phase != Phase::outside) continue;
    if (std::ranges::none_of(op.inputs, &CompareInput::is_read)) continue;
    for (const CatalogTensor* output : op.outputs) {
      if (counts(*output) && size_of(*output) > 0) results.push_back(output);
    }
  }
  return results;
}

// Tensors for other ranks, in order.
Tensors given_to_others(const CompareSide& side) {
  Tensors given;
  for (const CompareOp& op : side.ops) {
    const bool sends = collective_way(bare_type(op.op->op_type)) == CollectiveWay::send;
    if (!sends && !moves_between_ranks(op.op->op_type)) continue;
    for (const CompareInput& input : op.inputs) {
      if (input.is_read && counts(*input.tensor) && size_of(*input.tensor) > 0) given.push_back(input.tensor);
    }
  }
  return given;
}

Named parameters_read_in(const CompareSide& side) {
  Named parameters;
  for (const CompareOp& op : side.ops) {
    for (const CompareInput& input : op.inputs) {
      if (input.from == kNoOp && input.is_read && input.tensor->parameter.is_parameter())
        parameters.emplace(input.name, input.tensor);
    }
  }
  return parameters;
}

// The largest relative distance of a parameter from its golden one; 0 in the first step. One that is further apart than
// rounding is a difference of its own.
double apart_at_the_beginning(const CompareFacts& facts) {
  if (!facts.history.step) return 0;
  std::set<const CatalogTensor*> found;
  for (const ComparedOp& op : facts.pairs.ops()) {
    for (const ComparedTensor& input : op.inputs) {
      if (input.beyond) found.insert(input.target);
    }
  }
  double apart = 0;
  const Named golden = parameters_read_in(facts.golden);
  for (const auto& [name, tensor] : parameters_read_in(facts.target)) {
    const auto other = golden.find(name);
    if (other == golden.end() || found.contains(tensor)) continue;
    const TensorDifference& difference = facts.difference(tensor, other->second);
    if (difference.comparable() && !difference.equal) apart = std::max(apart, difference.relative());
  }
  return std::min(apart, kMostApart);
}

}  // namespace

StepEnds::StepEnds(const CompareFacts& facts)
    : target_(facts.target),
      golden_(facts.golden),
      differences_(facts.differences),
      layout_(facts.history.layout.get()),
      gradients_(gradients_of(target_)),
      golden_gradients_(gradients_of(golden_)),
      of_products_(std::min(spacing_of_products(target_), spacing_of_products(golden_))),
      apart_(apart_at_the_beginning(facts)) {}

// The parameter, or the gradient of it.
bool StepEnds::is_in_a_layout(std::string_view name) const {
  return layout_ != nullptr && layout_->holds_or_its_parameter(name);
}

// `smallest`: an error below the spacing at this size is the rounding of larger terms.
bool StepEnds::agrees(const CatalogTensor& target, const CatalogTensor& golden, double smallest) {
  const TensorDifference& difference = differences_.of({target_.rank, &target}, {golden_.rank, &golden});
  if (!difference.comparable()) return false;
  if (difference.equal) return true;
  if (difference.by == ComparedBy::checksum || difference.different_non_finite > 0) return false;
  if (hides_its_error(difference)) return false;
  const double spacing = coarser_spacing(difference);
  if (spacing < of_products_ && difference.rms_error <= of_products_ * difference.rms) return true;
  return is_rounding(difference.rms_error, difference.rms, std::max(spacing, apart_), smallest);
}

// Root mean square of the largest, of golden ones.
double StepEnds::largest_size(const std::map<std::string_view, const CatalogTensor*>& tensors) {
  double largest = 0;
  for (const auto& [name, tensor] : tensors) {
    const TensorOf one = {golden_.rank, tensor};
    largest = std::max(largest, differences_.of(one, one).rms);
  }
  return largest;
}

// By name; those whose name only one side has, by their values; those in other layouts, element by element.
bool StepEnds::gradients_agree() {
  Named mine = gradients_, theirs = golden_gradients_;
  if (mine.empty() || theirs.empty()) return false;
  const double largest = largest_size(theirs);
  if (!(largest > 0) || !gradients_agree_in_their_layouts(largest)) return false;
  const auto is_done = [&](const auto& one) { return is_in_a_layout(one.first); };
  std::erase_if(mine, is_done);
  std::erase_if(theirs, is_done);
  if (mine.size() != theirs.size()) return false;
  Tensors left, right;
  std::vector<std::pair<const CatalogTensor*, const CatalogTensor*>> pairs;
  for (const auto& [name, golden] : theirs) {
    const auto target = mine.find(name);
    if (target == mine.end()) right.push_back(golden);
    if (target != mine.end()) pairs.emplace_back(target->second, golden);
  }
  for (const auto& [name, target] : mine) {
    if (!theirs.contains(name)) left.push_back(target);
  }
  if (!all_agree(left, right, true)) return false;
  return std::ranges::all_of(pairs, [&](const auto& pair) { return agrees(*pair.first, *pair.second, largest); });
}

const CatalogTensor* StepEnds::other_gradient(double least_relative) {
  constexpr double kNoise = 1e-3;  // of the largest gradient: terms that cancel leave less
  if (apart_ > 0 || layout_ != nullptr || gradients_.size() != golden_gradients_.size()) return nullptr;
  std::vector<std::pair<const CatalogTensor*, const TensorDifference*>> others;
  for (const auto& [name, golden] : golden_gradients_) {
    const auto mine = gradients_.find(name);
    if (mine == gradients_.end()) return nullptr;
    const TensorDifference& found = differences_.of({target_.rank, mine->second}, {golden_.rank, golden});
    if (!found.comparable() || found.by == ComparedBy::checksum || is_half(coarser_spacing(found))) continue;
    if (found.relative() >= least_relative) others.emplace_back(mine->second, &found);
  }
  // The gradients that agree are not read again for their sizes.
  if (others.empty() || !losses_agree()) return nullptr;
  const double noise = kNoise * largest_size(golden_gradients_);
  std::erase_if(others, [&](const auto& one) { return one.second->rms_error < noise; });
  const auto worst = std::ranges::max_element(others, {}, [](const auto& one) { return one.second->relative(); });
  return worst == others.end() ? nullptr : worst->first;
}

namespace {

ParameterLayout::Of slopes_in(const Named& gradients) {
  return [&gradients](const std::string& name) {
    const auto at = gradients.find(gradient_name(name));
    return at == gradients.end() ? nullptr : at->second;
  };
}

}  // namespace

bool StepEnds::gradients_agree_in_their_layouts(double largest) {
  if (layout_ == nullptr) return true;
  std::vector<ParameterLayout::Distance> distances;
  if (!layout_->distances(*target_.rank, slopes_in(gradients_), *golden_.rank, slopes_in(golden_gradients_), distances))
    return false;
  return std::ranges::all_of(distances, [&](const ParameterLayout::Distance& one) {
    return is_rounding(one.rms_error, one.rms, epsilon_of(one.dtype), largest);
  });
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

const CatalogTensor* StepEnds::other_loss(double least_relative) {
  if (apart_ > 0 || layout_ != nullptr || of_products_ > 0 || losses_agree()) return nullptr;
  const std::vector<Tensors> mine = losses_of(target_), theirs = losses_of(golden_);
  for (std::size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) {
    const CatalogTensor &target = *mine[i].front(), &golden = *theirs[i].front();
    const TensorDifference& found = differences_.of({target_.rank, &target}, {golden_.rank, &golden});
    const bool is_known = found.comparable() && found.by != ComparedBy::checksum && found.different_non_finite == 0;
    if (is_known && coarser_spacing(found) <= epsilon_of(DType::float32) && found.relative() >= least_relative)
      return &target;
  }
  return nullptr;
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
  const Tensors mine = unread_results(target_, false, true), theirs = unread_results(golden_, false, true);
  return !mine.empty() && !theirs.empty() && agrees(*mine.back(), *theirs.back(), 0);
}

// Numbers that the program takes out of an op are results, although an op reads them, too: the norm of gradients that are
// clipped, which are the golden ones again behind that. By the names of the ops.
bool StepEnds::printed_numbers_agree() {
  const auto printed_by = [](const CompareSide& side) {
    std::map<std::pair<std::string_view, std::string_view>, const CatalogTensor*> printed;
    for (const CompareOp& op : side.ops) {
      const bool is_printed = std::ranges::any_of(
          op.readers, [&](std::uint32_t reader) { return nature_of(*side.ops[reader].op).gives_number; });
      if (!is_printed || op.outputs.size() != 1 || !counts(*op.outputs[0]) || size_of(*op.outputs[0]) != 1) continue;
      printed.emplace(std::pair(op.op->op_name, op.op->function), op.outputs[0]);
    }
    return printed;
  };
  const auto mine = printed_by(target_), theirs = printed_by(golden_);
  return std::ranges::all_of(theirs, [&](const auto& golden) {
    const auto target = mine.find(golden.first);
    return target == mine.end() || agrees(*target->second, *golden.second, 0);
  });
}

// A tensor for other ranks is a result, although nothing on this rank may show it. Two programs that do not give as many
// share their work in other ways.
bool StepEnds::given_to_others_agrees() {
  const Tensors mine = given_to_others(target_), theirs = given_to_others(golden_);
  if (mine.size() != theirs.size()) return true;
  double largest = 0;
  for (const CatalogTensor* one : theirs) {
    const TensorOf of = {golden_.rank, one};
    largest = std::max(largest, differences_.of(of, of).rms);
  }
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (size_of(*mine[i]) == size_of(*theirs[i]) && !agrees(*mine[i], *theirs[i], largest)) return false;
  }
  return true;
}

// Values that the program itself writes into parameters and states stay, though no op of the step reads them: an average of
// weights, a clipped weight, a state that is reset.
bool StepEnds::later_writes_agree() {
  const auto is_of_program = [](const CompareSide& side, const StateWriter& writer) {
    return phase_of(*side.ops[writer.op].op) == Phase::outside;
  };
  std::set<std::string_view> names;
  for (const CompareSide* side : {&target_, &golden_}) {
    for (const auto& [name, writer] : side->written) {
      if (is_of_program(*side, writer) && !is_gradient_name(name)) names.insert(name);
    }
  }
  return std::ranges::all_of(names, [&](std::string_view name) {
    const auto mine = target_.written.find(name), theirs = golden_.written.find(name);
    if (is_in_a_layout(name)) return true;
    if (mine == target_.written.end() || theirs == golden_.written.end()) return false;
    return agrees(*mine->second.output, *theirs->second.output, 0);
  });
}

// Scores that the program chooses from are a result: they may differ, and the next token be the same. By names of ops.
bool StepEnds::choices_agree() {
  const auto read_by = [](const CompareSide& side) {
    std::map<std::string_view, const CatalogTensor*> read;
    for (const CompareOp& op : side.ops) {
      if (!chooses(op)) continue;
      const auto of = std::ranges::find_if(op.inputs, [](const CompareInput& in) { return counts(*in.tensor); });
      if (of != op.inputs.end()) read.emplace(op.op->op_name, of->tensor);
    }
    return read;
  };
  const auto mine = read_by(target_), theirs = read_by(golden_);
  return std::ranges::all_of(theirs, [&](const auto& golden) {
    const auto target = mine.find(golden.first);
    return target == mine.end() || agrees(*target->second, *golden.second, 0);
  });
}

bool StepEnds::results_and_gradients_agree() {
  const bool trains = has(target_, Phase::optimizer) || has(golden_, Phase::optimizer);
  if (!given_to_others_agrees()) return false;
  if (trains) {
    return gradients_agree() && losses_agree() && results_agree(true) && later_writes_agree() &&
           printed_numbers_agree();
  }
  return last_results_agree() && results_agree(false) && choices_agree();
}

namespace {

// `apart`: of what the two leave, `rms`: of it, `update`: the difference to what was there before.
bool is_same_update(double apart, double rms, double update, double spacing, bool equal) {
  const double rounding = 2 * spacing * rms;
  return apart <= rounding + 1e-4 * update && (rounding <= 0.01 * update || equal);
}

}  // namespace

// As they were before. A rank of a sharded run reads its shard of a parameter in the optimizer alone.
std::map<std::string_view, const CatalogTensor*> StepEnds::updated_parameters() const {
  Named parameters;
  for (const auto& [name, tensor] : parameters_read_by(golden_)) parameters.emplace(name, tensor);
  for (const auto& [name, tensor] : parameters_read_in(golden_)) {
    if (golden_gradients_.contains(gradient_name(std::string(name)))) parameters.emplace(name, tensor);
  }
  return parameters;
}

bool StepEnds::updates_agree() {
  std::size_t compared = 0;
  for (const auto& [name, parameter] : updated_parameters()) {
    const auto mine = target_.written.find(name), theirs = golden_.written.find(name);
    if (is_in_a_layout(name) || (mine == target_.written.end() && theirs == golden_.written.end())) continue;
    if (mine == target_.written.end() || theirs == golden_.written.end()) return false;
    const TensorDifference& after =
        differences_.of({target_.rank, mine->second.output}, {golden_.rank, theirs->second.output});
    const TensorDifference& update = differences_.of({golden_.rank, theirs->second.output}, {golden_.rank, parameter});
    if (!after.comparable() || !update.comparable() || after.by == ComparedBy::checksum) return false;
    const double spacing = epsilon_of(after.golden_dtype);
    if (!is_same_update(after.rms_error, after.rms, update.rms_error, spacing, after.equal)) return false;
    ++compared;
  }
  return updates_agree_in_their_layouts() && (compared > 0 || layout_ != nullptr);
}

// A gradient that is nothing but rounding may update in any direction. The smallest update counts for all of a layout.
bool StepEnds::updates_agree_in_their_layouts() {
  if (layout_ == nullptr) return true;
  const auto of = [](const CompareSide& side) {
    return [&side](const std::string& name) -> const CatalogTensor* {
      const auto at = side.written.find(name);
      return at == side.written.end() ? nullptr : at->second.output;
    };
  };
  const double largest = largest_size(golden_gradients_);
  double smallest = std::numeric_limits<double>::infinity();
  for (const auto& [name, parameter] : parameters_read_by(golden_)) {
    const CatalogTensor* after = of(golden_)(std::string(name));
    if (!is_in_a_layout(name) || after == nullptr) continue;
    const TensorDifference& update = differences_.of({golden_.rank, after}, {golden_.rank, parameter});
    if (!update.comparable() || update.by == ComparedBy::checksum) return false;
    if (update.rms_error > 0) smallest = std::min(smallest, update.rms_error);
  }
  std::vector<ParameterLayout::Distance> after, slopes;
  if (!layout_->distances(*target_.rank, of(target_), *golden_.rank, of(golden_), after)) return false;
  if (!layout_->distances(*target_.rank, slopes_in(gradients_), *golden_.rank, slopes_in(golden_gradients_), slopes))
    return false;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const ParameterLayout::Distance& one = after[i];
    const double spacing = epsilon_of(one.dtype);
    const bool is_noise = slopes.size() == after.size() && slopes[i].rms <= 8 * spacing * largest;
    if (is_noise || is_same_update(one.rms_error, one.rms, smallest, spacing, one.rms_error == 0)) continue;
    return false;
  }
  return true;
}

}  // namespace sonde
