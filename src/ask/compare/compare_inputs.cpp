// Checks the inputs of an op: parameters and data with other values, tensors of another op, tensors changed on the way.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ask/compare/compare_step.h"
#include "ask/compare/compare_words.h"
#include "ask/compare/factor.h"
#include "ground/model/data_name.h"
#include "sonde/dtype.h"
#include "sonde/tensor.h"

namespace sonde {
namespace {

constexpr std::string_view kHoldsAnother = "it has the values of the golden ";

}  // namespace

void StepComparer::add_finding(FindingKind kind, const ComparedOp& op, const CatalogOp* culprit, bool in_golden,
                               const ComparedTensor* tensor, std::string what) {
  something_differs_ = true;
  CompareFinding& finding = findings_.emplace_back();
  finding = {kind,  index_, &op,   culprit, in_golden, tensor, {}, std::move(what), op.target_index,
             false, false,  false, {}};
  if (tensor == nullptr) return;
  finding.factor = factor_between(*tensor->difference);
  if (kind != FindingKind::parameter) return;
  finding.name = state_text(tensor->target->parameter);
  if (finding.name.empty() && tensor->golden != nullptr) finding.name = state_text(tensor->golden->parameter);
}

// The op without a counterpart that made an input, if the golden dump does not say what the counterpart read.
const CatalogOp* StepComparer::alone_before(const std::vector<PairedInput>& inputs, bool by_shape) const {
  for (const PairedInput& input : inputs) {
    const std::uint32_t from = input.target.input->from;
    if (input.golden.input != nullptr || from == kNoOp || target_owner_[from] == kNone) continue;
    const ComparedOp& before = step_.ops[target_owner_[from]];
    const bool computes = by_shape || (before.kind != OpKind::copy && before.kind != OpKind::cast);
    if (before.golden.empty() && computes) return before.target.front();
  }
  return nullptr;
}

void StepComparer::look_at_inputs(ComparedOp& op, const std::vector<PairedInput>& inputs) {
  std::size_t shown = 0;
  for (const PairedInput& input : inputs) {
    if (input.difference == nullptr || !input.target.input->is_read) continue;
    ComparedTensor& tensor = op.inputs[shown++];
    tensor.note = axes_text(*input.difference);
    if (keeps_another_type(op, input)) {
      report_kept_type(op, input, tensor);
      continue;
    }
    if (input.difference->equal || input.golden.input == nullptr) continue;
    // A dump by MindSpore itself may show inputs changed by the op.
    const bool overwritten = !golden_.rank->has_journal && input.target.input->tensor->slot >= 3 &&
                             shared_type(op.target.front()->op_type).find("batchnorm") != std::string::npos;
    if (overwritten || !input.golden.input->is_read) continue;
    if (same_producer(*input.target.input, *input.golden.input)) {
      if (look_at_unseen(op, input, tensor)) continue;
      if (is_from_unknown(*input.target.input)) {
        look_at_parameter(op, input, tensor);
      } else {
        look_at_change(op, input, tensor);
      }
    } else if (input.target.input->from == kNoOp) {
      look_at_parameter(op, input, tensor);
    } else {
      look_at_wiring(op, input, tensor);
    }
  }
}

// For two runs in one precision: both read a tensor from outside the step, which one of them keeps in a coarser type,
// and its values or the op's results show it.
bool StepComparer::keeps_another_type(const ComparedOp& op, const PairedInput& input) const {
  if (other_precision_ || input.golden.input == nullptr || !input.golden.input->is_read) return false;
  if (input.target.input->from != kNoOp || input.golden.input->from != kNoOp) return false;
  const CatalogTensor &target = *input.target.input->tensor, &golden = *input.golden.input->tensor;
  if (target.parameter.empty() || golden.parameter.empty() || target.constant || golden.constant) return false;
  const TensorDifference& read = *input.difference;
  const double mine = epsilon_of(read.dtype), theirs = epsilon_of(read.golden_dtype);
  if (mine == 0 || theirs == 0 || mine == theirs || !read.same_shape) return false;
  const bool is_half = std::max(mine, theirs) > epsilon_of(DType::float32);
  if (is_half && read.by != ComparedBy::nothing && read.by != ComparedBy::checksum && !read.equal) return true;
  return std::ranges::any_of(op.outputs, [&](const ComparedTensor& output) {
    const double left = epsilon_of(output.difference->dtype), right = epsilon_of(output.difference->golden_dtype);
    return !output.difference->equal && (mine > theirs ? left > right : left < right);
  });
}

void StepComparer::report_kept_type(ComparedOp& op, const PairedInput& input, ComparedTensor& shown) {
  const std::string_view name = input.target.input->tensor->parameter;
  shown.beyond = true;
  if (!reported_names_.insert(name).second) return;
  const TensorDifference& read = *input.difference;
  add_finding(FindingKind::type, op, op.target.front(), false, &shown,
              fmt::format("is kept in {}, golden {}; read by {}", info(read.dtype).lower, info(read.golden_dtype).lower,
                          readers_text(name)));
}

// The ops that read a parameter.
std::string StepComparer::readers_text(std::string_view parameter) const {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> names;
  std::size_t more = 0;
  for (const CompareOp& op : target_.ops) {
    const auto reads = [&](const CompareInput& input) {
      return input.from == kNoOp && input.is_read && input.tensor->parameter == parameter;
    };
    if (!std::ranges::any_of(op.inputs, reads)) continue;
    if (names.size() == kMost) {
      ++more;
      continue;
    }
    names.emplace_back(op.op->op_name.substr(op.op->op_name.rfind('/') + 1));
  }
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (more > 0) text += fmt::format(" and {} more", more);
  return text;
}

// The output of its producer is unknown, and no input of it is known to differ: memory that Python fills.
bool StepComparer::is_from_unknown(const CompareInput& input) const {
  const ComparedOp& from = step_.ops[target_owner_[input.from]];
  if (from.verdict != OpVerdict::unknown) return false;
  return std::ranges::all_of(from.inputs, [](const ComparedTensor& read) { return read.difference->equal; });
}

// The op passes elements on in another order, and nothing else shows it.
void StepComparer::look_at_order(ComparedOp& op, const std::vector<PairedInput>& inputs) {
  if (op.kind != OpKind::copy || op.target.size() != 1 || op.golden.size() != 1 || op.outputs.empty()) return;
  if (op.outputs[0].difference->by == ComparedBy::values || op.target[0]->op_type != op.golden[0]->op_type) return;
  for (const PairedInput& input : inputs) {
    if (input.golden.input == nullptr || input.target.input->from == kNoOp) continue;
    const std::uint32_t slot = input.target.input->tensor->slot, theirs = input.golden.input->tensor->slot;
    if (slot == theirs || !same_producer(*input.target.input, *input.golden.input)) continue;
    add_finding(FindingKind::wiring, op, op.target.front(), false, nullptr,
                fmt::format("reads as input.{} the tensor that the golden op reads as input.{}", slot, theirs));
    return;
  }
}

// A buffer that an op updates beside its results: running statistics of a norm.
void StepComparer::look_at_side_effect(const PairedInput& input, ComparedTensor& shown) {
  const std::string_view name = input.target.input->name;
  const ComparedOp& writer = step_.ops[target_owner_[input.target.input->from]];
  if (name.empty() || !target_names_.contains(name) || writer.target.empty() || writer.golden.empty()) return;
  // In another framework it may be read before or after the write.
  if (writer.target.back()->op_type != writer.golden.back()->op_type) return;
  if (std::max(seen_, seen_before_) >= kMaxExplainable || input.difference->by == ComparedBy::checksum) return;
  if (!is_beyond(*input.difference, allowance_of_parameter(*input.difference, seen_, options_.tolerance))) return;
  if (!reported_names_.insert(name).second) return;
  shown.beyond = true;
  std::string what = fmt::format("leaves another {}: {}", name, difference_text(FindingKind::changed, shown));
  for (const std::string& one : attributes_apart(*writer.target.back(), *writer.golden.back())) {
    what += "; called with " + one;
  }
  add_finding(FindingKind::changed, writer, writer.target.back(), false, nullptr, what);
}

// Both read outputs of ops that belong together: the difference is that of the outputs.
void StepComparer::look_at_change(ComparedOp& op, const PairedInput& input, ComparedTensor& shown) {
  const ComparedTensor* output = output_read(*input.target.input, *input.golden.input);
  if (output == nullptr) look_at_side_effect(input, shown);
  if (output == nullptr || !target_.rank->has_journal || !golden_.rank->has_journal) return;
  const TensorDifference &read = *input.difference, &written = *output->difference;
  if (read.by != written.by || !read.same_shape || !written.same_shape || read.count != written.count) return;
  if (read.by == ComparedBy::checksum || read.dtype != written.dtype) return;
  const double spacing = coarser_spacing(read);
  if (read.rms_error <= 1.01 * written.rms_error + 0.5 * spacing * read.rms) return;
  const CatalogTensor *now = input.target.input->tensor, *then = output->target;
  const bool in_target = !differences_.of(of_target(now), of_target(then)).equal;
  shown.beyond = true;
  const CatalogOp& writer =
      in_target ? *target_.ops[input.target.input->from].op : *golden_.ops[input.golden.input->from].op;
  add_finding(FindingKind::changed, op, op.target.front(), false, &shown,
              fmt::format("reads input.{}, which {} since {} wrote it, by no operator of the dump (NumPy, a pointer, a "
                          "kernel of its own?): {}",
                          shown.target->slot, in_target ? "changed" : "changed in the golden run", writer.op_name,
                          difference_text(FindingKind::changed, shown)));
}

std::string StepComparer::what_it_holds(const CatalogTensor& target, const CatalogTensor& golden,
                                        const TensorDifference& difference) {
  if (difference.shape.size() == 2 && difference.shape == difference.golden_shape) {
    const TensorDifference turned = difference_along(of_target(&target), of_golden(&golden), {1, 0}, in_order);
    if (turned.by == ComparedBy::values && turned.relative() < kMaxExplainable)
      return "it is the golden one transposed";
  }
  std::set<std::string_view> tried;
  for (const CompareOp& op : golden_.ops) {
    for (const CompareInput& input : op.inputs) {
      const CatalogTensor& other = *input.tensor;
      if (input.from != kNoOp || &other == &golden || other.parameter.empty() || other.file.empty()) continue;
      if (other.parameter == golden.parameter || !same_elements(target, other)) continue;
      if (!tried.insert(other.parameter).second) continue;
      if (tried.size() > kMostCandidates) return "";
      const TensorDifference& found = differences_.of(of_target(&target), of_golden(&other));
      if (found.comparable() && found.by == ComparedBy::values && found.relative() < 1e-6) {
        return fmt::format("{}{}{}", kHoldsAnother, other.parameter, found.axes.empty() ? "" : ", " + axes_text(found));
      }
    }
  }
  return "";
}

void StepComparer::look_at_parameter(ComparedOp& op, const PairedInput& input, ComparedTensor& shown) {
  const CatalogTensor& target = *input.target.input->tensor;
  const CatalogTensor& golden = *input.golden.input->tensor;
  // Without data flow it may come from an earlier op.
  const bool known = !target.parameter.empty() || (target_.has_flow && golden_.has_flow);
  if (!known && something_differs_) return;
  const bool one_source = same_producer(*input.target.input, *input.golden.input);
  if (golden_.has_flow && input.golden.input->from != kNoOp && !one_source) return look_at_wiring(op, input, shown);
  const bool is_data = is_data_name(target.parameter);
  if (!input.difference->same_shape) {
    const bool is_new = reported_names_.insert(target.parameter).second;
    if (is_data && is_new) report_other_size(op, input);
    if (!is_data && is_new && input.target.input->name == input.golden.input->name) {
      shown.beyond = true;
      add_finding(FindingKind::shape, op, op.target.front(), false, &shown, difference_text(FindingKind::shape, shown));
    }
    return;
  }
  if (!is_beyond(*input.difference, bound_of_parameter(golden, *input.difference, known))) return;
  // An error made by an op of this step is also passed on in place.
  if (!known && seen_ >= kMaxExplainable) return;
  shown.beyond = true;
  const bool is_new_name = target.parameter.empty() || reported_names_.insert(target.parameter).second;
  const bool is_new_content = target.content == 0 || reported_contents_.insert(target.content).second;
  if (!is_new_name || !is_new_content) return;
  if (target.constant && golden.constant) {  // a number of the program: the call is another one
    if (op.target.front()->op_type != op.golden.front()->op_type) return;
    add_finding(FindingKind::number, op, op.target.front(), false, &shown,
                fmt::format("is called with {:.9g}, golden {:.9g} (input.{})", *target.constant, *golden.constant,
                            target.slot));
    return;
  }
  const std::string_view mine = input.target.input->name, theirs = input.golden.input->name;
  const bool other =
      !mine.empty() && !theirs.empty() && mine != theirs && op.target.back()->op_name == op.golden.back()->op_name;
  if (other) {
    add_finding(FindingKind::wiring, op, op.target.front(), false, &shown,
                fmt::format("reads {}, the golden op reads {}", target.parameter, golden.parameter));
    return;
  }
  const std::string holds = what_it_holds(target, golden, *input.difference);
  // If the other framework uses another name and the counterpart was guessed, the guess was wrong.
  const bool guessed = op.how == MatchedBy::order || op.how == MatchedBy::flow;
  if (guessed && !holds.empty() && !target.parameter.empty() && !golden_names_.contains(mine)) {
    shown.note = holds;
    return;
  }
  const FindingKind kind = is_data ? FindingKind::data : FindingKind::parameter;
  const std::string numbers = difference_text(kind, shown);
  add_finding(kind, op, op.target.front(), false, &shown, holds.empty() ? numbers : holds + " (" + numbers + ")");
  findings_.back().exchanged = !is_data && holds.starts_with(kHoldsAnother);
}

// State left by an earlier step is as far apart as it was then.
Bound StepComparer::bound_of_parameter(const CatalogTensor& golden, const TensorDifference& difference, bool known) {
  const double seen = known ? seen_before_ : std::max(seen_, seen_before_);
  const auto left = golden.parameter.empty() ? history_.states.end() : history_.states.find(golden.parameter);
  if (left == history_.states.end() || difference.by == ComparedBy::checksum) {
    return allowance_of_parameter(difference, seen, options_.tolerance);
  }
  const RankHistory::State& state = left->second;
  Bound bound = allowance_of_parameter(difference, state.judged ? 0 : seen, options_.tolerance);
  if (state.judged) {
    bound.rms += 1.01 * state.apart.rms;
    bound.max += 1.01 * state.apart.max;
  }
  if (history_.other_optimizer && state.golden != nullptr) {
    // The sign of a tiny gradient decides the direction of an element's full step.
    const TensorDifference& update = differences_.of(of_golden(&golden), {state.rank, state.golden});
    const double share = update.by == ComparedBy::values ? 0.02 : 1;
    bound.rms += share * update.rms_error;
    bound.max += 2.5 * update.max_error;
  }
  return bound;
}

// The spacing of the coarsest type on the way from the golden tensor's type: of two runs in one precision its own.
double StepComparer::spacing_between(std::uint32_t from, const TensorDifference& read) const {
  double spacing = epsilon_of(read.golden_dtype);
  if (!other_precision_) return spacing;
  spacing = std::max(spacing, epsilon_of(read.dtype));
  for (std::uint32_t at = from, steps = 0; at != kNoOp && steps < kLongestChain; ++steps) {
    for (const CatalogTensor* output : target_.ops[at].outputs) spacing = std::max(spacing, epsilon_of(output->dtype));
    if (target_owner_[at] == kNone || !step_.ops[target_owner_[at]].golden.empty()) break;
    at = target_.ops[at].inputs.empty() ? kNoOp : target_.ops[at].inputs[0].from;
  }
  return spacing;
}

// A sum whose terms cancel: what it gives is rounding in both runs.
bool StepComparer::is_left_over(std::uint32_t from, const TensorDifference& read) {
  for (std::size_t i = 0; i < kLongestChain && from != kNoOp && target_.ops[from].kind == OpKind::copy; ++i) {
    from = target_.ops[from].inputs.empty() ? kNoOp : target_.ops[from].inputs.front().from;
  }
  if (from == kNoOp || read.by == ComparedBy::checksum || read.different_non_finite > 0) return false;
  const CompareOp& maker = target_.ops[from];
  if (maker.kind != OpKind::reduction && maker.kind != OpKind::contraction) return false;
  std::vector<InputError> terms;
  for (const CompareInput& input : maker.inputs) {
    if (!input.is_read || !input.tensor->recorded()) continue;
    const TensorDifference& own = differences_.of(of_target(input.tensor), of_target(input.tensor));
    if (own.comparable() && own.by != ComparedBy::checksum) terms.push_back({&own, input.tensor->slot});
  }
  if (terms.empty()) return false;
  const Allowance allowance = allowance_of(maker.op->op_type, maker.kind, 0, read, terms, 0, options_.tolerance);
  return !is_beyond(read, allowance.rounding);
}

void StepComparer::look_at_wiring(ComparedOp& op, const PairedInput& input, ComparedTensor& shown) {
  const TensorDifference& read = *input.difference;
  if (is_number_rounded(input)) return;  // find_rounding_apart() looks at it
  // Errors known from before may have reached this by another way.
  if (std::max(seen_, seen_before_) >= kMaxExplainable || read.by == ComparedBy::checksum) return;
  // If the result is correct, ops before it belong to the work that the other side does in one op; but two ops of one
  // type that read the same slot read it for the same purpose.
  const bool is_single = op.target.size() == 1 && op.golden.size() == 1;
  const bool in_its_place = is_single && shared_type(op.target[0]->op_type) == shared_type(op.golden[0]->op_type) &&
                            input.target.input->tensor->slot == input.golden.input->tensor->slot;
  double result = 0;
  for (const ComparedTensor& output : op.outputs) result = std::max(result, output.difference->relative());
  const bool shows = (op.verdict == OpVerdict::propagated || op.verdict == OpVerdict::introduced) &&
                     result >= kShare * read.relative();
  if (op.verdict == OpVerdict::identical || (!in_its_place && !shows)) return;
  if (read.same_shape) {
    Bound bound = allowance_of_parameter(read, seen_, options_.tolerance);
    if (!other_precision_ && epsilon_of(read.dtype) > epsilon_of(read.golden_dtype)) bound = {};
    if (!is_beyond(read, bound)) return;
    const std::uint32_t from = input.target.input->from;
    if (is_left_over(from, read)) return;
    const std::uint32_t left = from == kNoOp ? kNone : target_owner_[from];
    const bool inserted = left != kNone && step_.ops[left].golden.empty();
    if (inserted && read.relative() <= spacing_between(from, read)) return;
  }
  shown.beyond = true;
  if (!report_new_state(op, input, shown)) report_wiring(op, input, shown);
}

void StepComparer::report_wiring(ComparedOp& op, const PairedInput& input, ComparedTensor& shown) {
  const std::uint32_t from = input.target.input->from, theirs = input.golden.input->from;
  const std::uint32_t left = from == kNoOp ? kNone : target_owner_[from];
  const bool inserted = left != kNone && step_.ops[left].golden.empty();
  const bool missing = theirs != kNoOp && golden_owner_[theirs] == kNone && !promised_[theirs];
  const std::string numbers = difference_text(FindingKind::wiring, shown);
  const std::string slot = fmt::format("input.{} of {}", shown.target->slot, op.target.front()->op_name);
  const std::uint32_t mine = inserted ? first_alone(target_, target_owner_, from) : kNoOp;
  // If both have ops of their own here, one that only moves or casts is not the cause of what the other computes.
  const auto moves = [](const CompareOp& one) { return one.kind == OpKind::copy || one.kind == OpKind::cast; };
  const bool is_cast = missing && moves(golden_.ops[theirs]);  // what it moves or casts was computed before
  const std::uint32_t other = is_cast ? first_alone(golden_, golden_owner_, theirs) : theirs;
  const bool only_moves = inserted && missing && moves(target_.ops[mine]) && !moves(golden_.ops[other]);
  if (inserted && !only_moves) {
    add_finding(FindingKind::inserted, op, target_.ops[mine].op, false, &shown,
                fmt::format("has no counterpart in the golden dump, and changes {}: {}", slot, numbers));
    return;
  }
  if (missing) {
    add_finding(FindingKind::missing, op, golden_.ops[other].op, true, &shown,
                fmt::format("has no counterpart in the target, which changes {}: {}", slot, numbers));
    return;
  }
  if (left == kNone && from != kNoOp) return;
  const auto place = [](const CompareSide& side, const CompareInput& of) {
    if (of.from == kNoOp) return of.tensor->parameter.empty() ? "outside the step" : std::string(of.tensor->parameter);
    const CompareOp& producer = side.ops[of.from];
    const std::string slot_of = producer.outputs.size() > 1 ? fmt::format(":output.{}", of.from_slot) : "";
    return std::string(producer.op->op_name) + slot_of;
  };
  add_finding(FindingKind::wiring, op, op.target.front(), false, &shown,
              fmt::format("input.{} comes from {}, in the golden dump from {}: {}", shown.target->slot,
                          place(target_, *input.target.input), place(golden_, *input.golden.input), numbers));
  findings_.back().certain = left != kNone && theirs != kNoOp && left == golden_owner_[theirs] &&
                             target_.ops[from].op->op_type == golden_.ops[theirs].op->op_type;
}

std::uint32_t StepComparer::first_alone(const CompareSide& side, const std::vector<std::uint32_t>& owner,
                                        std::uint32_t from) const {
  const bool is_target = &side == &target_;
  const auto is_alone = [&](std::uint32_t op) {
    if (is_target) return owner[op] != kNone && step_.ops[owner[op]].golden.empty();
    return owner[op] == kNone && !promised_[op];  // golden ops without a counterpart are kept last
  };
  std::uint32_t first = from;
  for (std::size_t steps = 0; steps < kLongestChain; ++steps) {
    std::uint32_t before = kNoOp;
    for (const CompareInput& input : side.ops[from].inputs) {
      if (input.from != kNoOp && is_alone(input.from)) before = input.from;
    }
    if (before == kNoOp) break;
    from = before;
    if (side.ops[from].kind != OpKind::copy) first = from;
  }
  return first;
}

// Its results cannot be compared: most often another batch.
void StepComparer::report_other_size(const ComparedOp& op, const PairedInput& input) {
  const TensorDifference& difference = *input.difference;
  step_.notes.push_back(fmt::format(
      "{} reads {} of shape {}, the golden op {}: later results are not compared; run both with the same batches",
      op.target.front()->op_name,
      input.target.input->tensor->parameter.empty() ? "data" : input.target.input->tensor->parameter,
      shape_text(difference.shape, '(', ')'), shape_text(difference.golden_shape, '(', ')')));
}

}  // namespace sonde
