// Judges the ops of one step in the order in which they ran: what is wrong is said once, where it begins.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "analysis/compare.h"
#include "analysis/compare_words.h"

namespace sonde {
namespace {

constexpr double kTooFar = 0.01;          // see tolerance.cpp
constexpr double kShare = 1e-4;           // of an input's error, that its reader shows where it matters
constexpr std::size_t kLongestChain = 4;  // ops that one op of the other side may stand for, beside the first
constexpr std::size_t kMostCandidates = 64;
constexpr std::uint32_t kNone = 0xFFFFFFFF;

using Group = std::vector<std::uint32_t>;  // ops of one side, in order; the last gives the outputs

struct GroupInput {
  const CompareInput* input = nullptr;
  std::uint32_t op = 0;
};

struct PairedInput {
  GroupInput target, golden;  // golden.input null: only the target's difference is known
  const TensorDifference* difference = nullptr;
};

struct Judged {
  ComparedOp op;
  std::vector<PairedInput> inputs;
  bool finding = false;
  FindingKind kind = FindingKind::op;
  std::size_t tensor = 0;  // of op.outputs, that shows it
  double relative = 0;     // the largest of its outputs
};

std::uint64_t elements_of(const CatalogTensor& tensor) {
  std::uint64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0));
  return count;
}

bool same_elements(const CatalogTensor& a, const CatalogTensor& b) {
  return !a.has_shape || !b.has_shape || elements_of(a) == elements_of(b);
}

// Of what was added up, where that is more than the sum: the gradient of a bias before a norm is 0 but for rounding.
double scaled_relative(const TensorDifference& difference, const Allowance& allowance) {
  if (difference.rms_error == 0) return 0;
  const double added_up = allowance.epsilon > 0 ? allowance.rounding.rms / (4 * allowance.epsilon) : 0;
  const double scale = std::max(difference.rms, added_up);
  return scale > 0 ? difference.rms_error / scale : 0;
}

class StepComparer {
 public:
  StepComparer(ComparedStep& step, std::size_t index, const CompareOptions& options, double seen_before,
               std::vector<CompareFinding>& findings)
      : step_(step),
        index_(index),
        options_(options),
        target_(*step.target),
        golden_(*step.golden),
        differences_(*step.differences),
        findings_(findings),
        seen_before_(seen_before),
        target_owner_(target_.ops.size(), kNone),
        golden_owner_(golden_.ops.size(), kNone) {}

  void run();
  double seen() const { return seen_; }

 private:
  TensorOf of_target(const CatalogTensor* tensor) const { return {target_.rank, tensor}; }
  TensorOf of_golden(const CatalogTensor* tensor) const { return {golden_.rank, tensor}; }

  void want_all();
  void compare_op(std::uint32_t target);
  void keep(Judged judged, const Group& target, const Group& golden);
  void keep_alone(std::uint32_t target);
  bool find_fused(std::uint32_t target);
  bool find_parts(std::uint32_t golden);
  Judged judge(const Group& target, const Group& golden, MatchedBy how);
  Judged judge_longer(const Group& target, const Group& golden, Judged first);
  void judge_outputs(Judged& judged);
  void judge_verdict(Judged& judged, const std::vector<InputError>& errors, bool integers_differ);

  Group chain_of(const CompareSide& side, const std::vector<std::uint32_t>& owner, std::uint32_t from) const;
  std::vector<GroupInput> inputs_of(const CompareSide& side, const Group& group) const;
  std::vector<PairedInput> pair_inputs(const Group& target, const Group& golden);
  const TensorDifference* known_difference(const GroupInput& target, const GroupInput& golden);
  std::uint32_t find_elsewhere(std::uint32_t target, Judged& judged);
  bool same_producer(const CompareInput& target, const CompareInput& golden) const;

  const CatalogOp* alone_before(const std::vector<PairedInput>& inputs) const;
  void look_at_inputs(ComparedOp& op, const std::vector<PairedInput>& inputs);
  void look_at_parameter(ComparedOp& op, const PairedInput& input, ComparedTensor& shown);
  void look_at_wiring(ComparedOp& op, const PairedInput& input, ComparedTensor& shown);
  std::string what_it_holds(const CatalogTensor& target, const CatalogTensor& golden,
                            const TensorDifference& difference);
  void add_finding(FindingKind kind, const ComparedOp& op, const CatalogOp* culprit, bool in_golden,
                   const ComparedTensor* tensor, std::string what);

  ComparedStep& step_;
  std::size_t index_;
  const CompareOptions& options_;
  const CompareSide& target_;
  const CompareSide& golden_;
  Differences& differences_;
  std::vector<CompareFinding>& findings_;
  double seen_before_;  // of earlier steps
  double seen_ = 0;     // of this one
  std::vector<OpMatch> matches_;
  std::vector<std::uint32_t> target_owner_, golden_owner_;  // by op: index into step_.ops
  std::vector<bool> promised_;                              // golden ops that a match will take
  std::set<std::string_view> target_names_, golden_names_;  // of parameters
  std::set<std::string_view> told_names_;                   // parameters that were found to differ
  std::set<std::uint64_t> told_contents_;
  bool something_differs_ = false;
};

// --- which tensors belong together

std::vector<GroupInput> StepComparer::inputs_of(const CompareSide& side, const Group& group) const {
  std::vector<GroupInput> inputs;
  for (const std::uint32_t op : group) {
    for (const CompareInput& input : side.ops[op].inputs) {
      if (input.from != kNoOp && std::ranges::find(group, input.from) != group.end()) continue;
      // Without data flow an op may have read all that the one before it wrote.
      if (!side.has_flow && op != group.front()) {
        const CompareOp& before = side.ops[op - 1];
        const bool inner = std::ranges::any_of(before.outputs, [&](const CatalogTensor* output) {
          return output->has_shape && input.tensor->has_shape && output->shape == input.tensor->shape;
        });
        if (inner) continue;
      }
      inputs.push_back({&input, op});
    }
  }
  return inputs;
}

bool StepComparer::same_producer(const CompareInput& target, const CompareInput& golden) const {
  if (target.from == kNoOp || golden.from == kNoOp) return false;
  const std::uint32_t owner = target_owner_[target.from];
  return owner != kNone && owner == golden_owner_[golden.from];
}

const TensorDifference* StepComparer::known_difference(const GroupInput& target, const GroupInput& golden) {
  if (golden.input != nullptr && target.input->tensor->recorded() && golden.input->tensor->recorded()) {
    const TensorDifference& found = differences_.of(of_target(target.input->tensor), of_golden(golden.input->tensor));
    if (found.by != ComparedBy::nothing) return &found;
  }
  // Of the op it comes from; past those that are alone, which may only pad or cast it.
  const CompareInput* input = target.input;
  for (std::size_t steps = 0; steps <= kLongestChain && input->from != kNoOp; ++steps) {
    const std::uint32_t owner = target_owner_[input->from];
    if (owner == kNone) return nullptr;
    const ComparedOp& from = step_.ops[owner];
    for (const ComparedTensor& output : from.outputs) {
      if (output.target->slot == input->from_slot || from.outputs.size() == 1) return output.difference;
    }
    const std::vector<CompareInput>& before = target_.ops[input->from].inputs;
    if (!from.golden.empty() || before.empty()) return nullptr;
    input = &before.front();
  }
  return nullptr;
}

std::vector<PairedInput> StepComparer::pair_inputs(const Group& target, const Group& golden) {
  const std::vector<GroupInput> left = inputs_of(target_, target);
  std::vector<GroupInput> right = inputs_of(golden_, golden);
  std::vector<PairedInput> pairs(left.size());
  std::vector<bool> used(right.size(), false);
  for (std::size_t i = 0; i < left.size(); ++i) pairs[i].target = left[i];
  const auto pass = [&](const auto& fits) {
    for (PairedInput& pair : pairs) {
      if (pair.golden.input != nullptr) continue;
      for (std::size_t j = 0; j < right.size(); ++j) {
        if (used[j] || !fits(pair.target, right[j])) continue;
        pair.golden = right[j];
        used[j] = true;
        break;
      }
    }
  };
  const bool single = target.size() == 1 && golden.size() == 1;
  const bool one_type =
      single && shared_type(target_.ops[target[0]].op->op_type) == shared_type(golden_.ops[golden[0]].op->op_type);
  const auto& name = [](const GroupInput& of) { return of.input->tensor->tensor_name; };
  const auto same_size = [](const GroupInput& a, const GroupInput& b) {
    return same_elements(*a.input->tensor, *b.input->tensor);
  };
  if (one_type) {  // what stands in its place stays there
    pass([&](const GroupInput& a, const GroupInput& b) {
      return a.input->tensor->slot == b.input->tensor->slot && same_producer(*a.input, *b.input);
    });
  }
  pass([&](const GroupInput& a, const GroupInput& b) { return same_producer(*a.input, *b.input) && same_size(a, b); });
  pass([&](const GroupInput& a, const GroupInput& b) {
    return !name(a).empty() && name(a) == name(b) && same_size(a, b);
  });
  if (one_type) {
    pass([&](const GroupInput& a, const GroupInput& b) {
      return a.input->tensor->slot == b.input->tensor->slot && same_size(a, b);
    });
  }
  pass([&](const GroupInput& a, const GroupInput& b) {
    return a.input->tensor->has_shape && b.input->tensor->has_shape &&
           squeezed(a.input->tensor->shape) == squeezed(b.input->tensor->shape);
  });
  pass([&](const GroupInput& a, const GroupInput& b) {
    return a.input->tensor->has_shape && b.input->tensor->has_shape && elements_of(*a.input->tensor) > 1 &&
           same_size(a, b);
  });
  for (PairedInput& pair : pairs) pair.difference = known_difference(pair.target, pair.golden);
  return pairs;
}

// The ops after this one that nothing else of its side reads in between, and that have no counterpart of their own.
Group StepComparer::chain_of(const CompareSide& side, const std::vector<std::uint32_t>& owner,
                             std::uint32_t from) const {
  Group chain = {from};
  const bool is_target = &side == &target_;
  while (chain.size() <= kLongestChain) {
    std::uint32_t next = kNoOp;
    for (const std::uint32_t reader : side.ops[chain.back()].readers) {
      const bool is_free =
          owner[reader] == kNone && (is_target ? matches_[reader].golden == kNoOp : !promised_[reader]);
      if (!is_free || reader <= chain.back()) continue;
      next = reader;
      break;
    }
    if (next == kNoOp) break;
    chain.push_back(next);
  }
  return chain;
}

// --- one op and its counterpart

void StepComparer::judge_outputs(Judged& judged) {
  const std::vector<const CatalogTensor*>& left = target_.ops[judged.op.target_index].outputs;
  std::vector<const CatalogTensor*> right = golden_.ops[judged.op.golden_index].outputs;
  for (const CatalogTensor* target : left) {
    auto at = std::ranges::find_if(right, [&](const CatalogTensor* golden) {
      return golden != nullptr && golden->slot == target->slot && same_elements(*target, *golden);
    });
    if (at == right.end()) {
      at = std::ranges::find_if(right, [&](const CatalogTensor* golden) {
        return golden != nullptr && golden->has_shape && target->has_shape &&
               squeezed(golden->shape) == squeezed(target->shape);
      });
    }
    if (at == right.end() && left.size() == 1 && right.size() == 1) at = right.begin();
    if (at == right.end() || *at == nullptr) continue;
    ComparedTensor& output = judged.op.outputs.emplace_back();
    output.target = target;
    output.golden = *at;
    *at = nullptr;
    output.difference = &differences_.of(of_target(target), of_golden(output.golden));
    output.note = axes_text(*output.difference);
  }
}

Judged StepComparer::judge(const Group& target, const Group& golden, MatchedBy how) {
  Judged judged;
  ComparedOp& op = judged.op;
  op.target_index = target.back();
  op.golden_index = golden.back();
  for (const std::uint32_t i : target) op.target.push_back(target_.ops[i].op);
  for (const std::uint32_t i : golden) op.golden.push_back(golden_.ops[i].op);
  op.how = how;
  // What does the work: of conv, bias and relu the conv.
  op.kind = target_.ops[target.front()].kind;
  if (op.kind == OpKind::copy || op.kind == OpKind::cast || op.kind == OpKind::other) {
    op.kind = golden_.ops[golden.front()].kind;
  }
  judged.inputs = pair_inputs(target, golden);
  std::vector<InputError> errors;
  bool integers_differ = false;
  for (const PairedInput& input : judged.inputs) {
    if (input.difference == nullptr) continue;
    ComparedTensor& shown = op.inputs.emplace_back();
    shown.target = input.target.input->tensor;
    shown.golden = input.golden.input != nullptr ? input.golden.input->tensor : nullptr;
    shown.difference = input.difference;
    const DType dtype = input.difference->dtype;
    const bool is_float = dtype == DType::undefined || is_floating(dtype) || is_complex(dtype);
    if (is_float && input.difference->by != ComparedBy::checksum) {
      errors.push_back({input.difference, input.target.input->tensor->slot});
    } else if (!input.difference->equal) {
      integers_differ = true;
    }
  }
  judge_outputs(judged);
  judge_verdict(judged, errors, integers_differ);
  return judged;
}

void StepComparer::judge_verdict(Judged& judged, const std::vector<InputError>& errors, bool integers_differ) {
  ComparedOp& op = judged.op;
  const CompareOp& main = target_.ops[op.target_index];
  const std::string_view type = op.target.front()->op_type;
  bool any = false, all_equal = true, all_rounding = true;
  bool non_finite_in = false, shapes_in = false, inputs_equal = !op.inputs.empty();
  for (const ComparedTensor& input : op.inputs) {
    non_finite_in = non_finite_in || input.difference->different_non_finite > 0;
    shapes_in = shapes_in || !input.difference->same_shape;
    inputs_equal = inputs_equal && input.difference->equal;
  }
  double worst = 0;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    ComparedTensor& output = op.outputs[i];
    const TensorDifference& difference = *output.difference;
    if (!difference.same_shape) {
      any = true;
      all_equal = all_rounding = false;
      output.beyond = !shapes_in;
      if (output.beyond && !judged.finding) {
        judged.finding = true;
        judged.kind = FindingKind::shape;
        judged.tensor = i;
        worst = std::numeric_limits<double>::infinity();
      }
      continue;
    }
    if (difference.by == ComparedBy::nothing) continue;
    any = true;
    const double before = main.inputs.empty() && op.kind == OpKind::copy ? 0 : std::max(seen_, seen_before_);
    output.allowance = allowance_of(type, op.kind, output.target->slot, difference, errors, before, options_.tolerance);
    output.allowance.anything = output.allowance.anything || integers_differ;
    if (difference.by != ComparedBy::checksum) {
      judged.relative = std::max(judged.relative, scaled_relative(difference, output.allowance));
    }
    all_equal = all_equal && difference.equal;
    if (!is_beyond(difference, output.allowance.rounding)) continue;
    all_rounding = false;
    const bool explained =
        shapes_in || output.allowance.anything || (non_finite_in && difference.different_non_finite > 0);
    const bool only_checksums = difference.by == ComparedBy::checksum && !inputs_equal && !op.inputs.empty();
    output.beyond = !explained && !only_checksums && is_beyond(difference, output.allowance.total());
    if (!output.beyond) continue;
    const double share = output.allowance.total().rms > 0 ? difference.rms_error / output.allowance.total().rms
                                                          : std::numeric_limits<double>::max();
    if (judged.finding && share <= worst) continue;
    worst = share;
    judged.finding = true;
    judged.kind = difference.different_non_finite > 0 ? FindingKind::non_finite : FindingKind::op;
    judged.tensor = i;
  }
  // Less than rounding explains, but the call says why.
  if (!judged.finding && any && !all_equal && inputs_equal && all_rounding &&
      !attributes_apart(*op.target.back(), *op.golden.back()).empty()) {
    judged.finding = true;
    const auto at = std::ranges::find_if(op.outputs, [](const ComparedTensor& out) { return !out.difference->equal; });
    judged.tensor = static_cast<std::size_t>(at - op.outputs.begin());
    op.outputs[judged.tensor].beyond = true;
  }
  op.verdict = !any             ? OpVerdict::unknown
               : judged.finding ? OpVerdict::added
               : all_equal      ? OpVerdict::same
               : all_rounding   ? OpVerdict::rounding
                                : OpVerdict::inherited;
  if (!any) {
    op.reason = op.outputs.empty() ? "no output of one belongs to one of the other" : op.outputs[0].difference->problem;
  }
}

// Perhaps more ops than these two do together what one does on the other side.
Judged StepComparer::judge_longer(const Group& target, const Group& golden, Judged first) {
  const Group left = chain_of(target_, target_owner_, target.back());
  const Group right = chain_of(golden_, golden_owner_, golden.back());
  Judged best = std::move(first);
  Group best_left = target, best_right = golden;
  for (std::size_t length = 1; length <= left.size() + right.size() - 2; ++length) {
    for (std::size_t i = 0; i < std::min(left.size(), length + 1); ++i) {
      const std::size_t j = length - i;
      if (j >= right.size()) continue;
      Group longer_left = target, longer_right = golden;
      longer_left.insert(longer_left.end(), left.begin() + 1, left.begin() + 1 + static_cast<std::ptrdiff_t>(i));
      longer_right.insert(longer_right.end(), right.begin() + 1, right.begin() + 1 + static_cast<std::ptrdiff_t>(j));
      Judged judged = judge(longer_left, longer_right, best.op.how);
      if (judged.op.verdict == OpVerdict::unknown) continue;
      const bool shape_mended =
          best.kind == FindingKind::shape && best.finding && !(judged.kind == FindingKind::shape && judged.finding);
      if (!judged.finding || shape_mended || judged.relative < 0.1 * best.relative) {
        best = std::move(judged);
        best_left = longer_left;
        best_right = longer_right;
      }
      if (!best.finding) return best;
    }
  }
  return best;
}

// What an op read from an op that is alone, where the golden dump does not tell what its counterpart read.
const CatalogOp* StepComparer::alone_before(const std::vector<PairedInput>& inputs) const {
  for (const PairedInput& input : inputs) {
    const std::uint32_t from = input.target.input->from;
    if (input.golden.input != nullptr || from == kNoOp || target_owner_[from] == kNone) continue;
    const ComparedOp& before = step_.ops[target_owner_[from]];
    const bool computes = before.kind != OpKind::copy && before.kind != OpKind::cast;
    if (before.golden.empty() && computes) return before.target.front();
  }
  return nullptr;
}

void StepComparer::keep(Judged judged, const Group& target, const Group& golden) {
  const auto index = static_cast<std::uint32_t>(step_.ops.size());
  for (const std::uint32_t t : target) target_owner_[t] = index;
  for (const std::uint32_t g : golden) golden_owner_[g] = index;
  ComparedOp& op = step_.ops.emplace_back(std::move(judged.op));
  const bool had_findings = something_differs_;
  look_at_inputs(op, judged.inputs);
  if (judged.finding) {
    const ComparedTensor& shown = op.outputs[judged.tensor];
    const bool told_by_inputs = something_differs_ && !had_findings;
    op.reason = difference_text(judged.kind, shown);
    for (const std::string& apart : attributes_apart(*op.target.back(), *op.golden.back())) {
      op.reason += "; called with " + apart;
    }
    if (op.target.back()->op_type != op.golden.back()->op_type && !op.golden.back()->op_type.empty()) {
      op.reason += fmt::format("; the golden op is {}", op.golden.back()->op_type);
    }
    if (told_by_inputs) {
      op.verdict = OpVerdict::inherited;
    } else if (const CatalogOp* before = alone_before(judged.inputs); before != nullptr) {
      add_finding(FindingKind::inserted, op, before, false, &shown,
                  fmt::format("has no counterpart in the golden dump, and {}, which reads it, differs: {}",
                              op.target.front()->full_name, op.reason));
    } else {
      add_finding(judged.kind, op, op.target.back(), false, &shown, op.reason);
    }
  }
  // What only hands elements on has no scale of its own: its inputs were counted.
  if (op.verdict == OpVerdict::inherited && op.kind <= OpKind::cast) return;
  if (std::isfinite(judged.relative)) seen_ = std::max(seen_, judged.relative);
  step_.largest_relative = std::max(step_.largest_relative, judged.relative);
}

Group ops_of(const CompareSide& side, const std::vector<const CatalogOp*>& ops, std::uint32_t last) {
  // Groups are short: look them up again.
  Group group;
  for (const CatalogOp* op : ops) {
    for (std::uint32_t i = last + 1; i-- > 0;) {
      if (side.ops[i].op == op) {
        group.push_back(i);
        break;
      }
    }
  }
  return group;
}

// A parameter of its own that is far from the golden one: perhaps that of another op.
bool reads_another(const Judged& judged) {
  return std::ranges::any_of(judged.inputs, [](const PairedInput& input) {
    return input.difference != nullptr && input.golden.input != nullptr && input.target.input->from == kNoOp &&
           input.golden.input->from == kNoOp && input.difference->relative() > kTooFar;
  });
}

void StepComparer::compare_op(std::uint32_t target) {
  if (target_owner_[target] != kNone) return;  // part of one before
  const OpMatch match = matches_[target];
  if (match.golden == kNoOp || golden_owner_[match.golden] != kNone) {
    if (!find_fused(target)) keep_alone(target);
    return;
  }
  Judged judged = judge({target}, {match.golden}, match.how);
  if (judged.finding && match.how != MatchedBy::mapping) {
    judged = judge_longer({target}, {match.golden}, std::move(judged));
  }
  const bool by_likeness = match.how == MatchedBy::order || match.how == MatchedBy::flow;
  if (by_likeness && (judged.finding || reads_another(judged))) {
    const std::uint32_t other = find_elsewhere(target, judged);
    if (other != kNoOp) {
      const auto promised = std::ranges::find(matches_, other, &OpMatch::golden);
      matches_[target].golden = other;
      if (promised != matches_.end()) promised->golden = match.golden;
      if (promised == matches_.end()) promised_[match.golden] = false;
      promised_[other] = true;
    }
  }
  const Group left = ops_of(target_, judged.op.target, judged.op.target_index);
  const Group right = ops_of(golden_, judged.op.golden, judged.op.golden_index);
  keep(std::move(judged), left, right);
}

// Another golden op of the type and shape that agrees, where the place of this one was guessed.
std::uint32_t StepComparer::find_elsewhere(std::uint32_t target, Judged& judged) {
  const CompareOp& own = target_.ops[target];
  if (own.outputs.empty() || !own.outputs[0]->has_shape) return kNoOp;
  const auto parameter_of = [](const CompareOp& op) {
    for (const CompareInput& input : op.inputs) {
      if (input.from == kNoOp && !input.tensor->tensor_name.empty()) return input.tensor->tensor_name;
    }
    return std::string_view();
  };
  std::size_t tried = 0;
  for (std::uint32_t golden = 0; golden < golden_.ops.size() && tried < kMostCandidates; ++golden) {
    const CompareOp& other = golden_.ops[golden];
    if (golden_owner_[golden] != kNone || golden == judged.op.golden_index || other.outputs.empty()) continue;
    if (!OpFamilies::same(*own.family, *other.family) || other.outputs[0]->shape != own.outputs[0]->shape) continue;
    const std::string_view mine = parameter_of(own), theirs = parameter_of(other);
    if (!mine.empty() && mine != theirs && (golden_names_.contains(mine) || target_names_.contains(theirs))) continue;
    ++tried;
    Judged again = judge({target}, {golden}, MatchedBy::flow);
    if (again.finding || reads_another(again) || again.op.verdict == OpVerdict::unknown || again.relative > 1e-3) {
      continue;
    }
    judged = std::move(again);
    return golden;
  }
  return kNoOp;
}

// An op that has no counterpart may be several of the golden dump's at once, which begin where its inputs are read.
bool StepComparer::find_fused(std::uint32_t target) {
  std::vector<std::uint32_t> starts;
  for (const CompareInput& input : target_.ops[target].inputs) {
    if (input.from == kNoOp || target_owner_[input.from] == kNone) continue;
    const std::uint32_t owner = target_owner_[input.from];
    const std::uint32_t theirs = step_.ops[owner].golden_index;
    if (theirs == kNoOp) continue;
    for (const std::uint32_t reader : golden_.ops[theirs].readers) {
      if (golden_owner_[reader] == kNone && !promised_[reader]) starts.push_back(reader);
    }
  }
  for (const std::uint32_t start : starts) {
    const Group chain = chain_of(golden_, golden_owner_, start);
    for (std::size_t length = chain.size(); length > 0; --length) {
      const Group group(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(length));
      Judged judged = judge({target}, group, MatchedBy::flow);
      const bool alike = judged.op.verdict != OpVerdict::unknown && !judged.finding && !judged.op.outputs.empty();
      if (!alike || judged.op.outputs[0].difference->relative() > kTooFar) continue;
      keep(std::move(judged), {target}, group);
      return true;
    }
  }
  return false;
}

// The same, the other way round: a golden op that several of the target's stand for. Called when the last of them, which
// is alone, could be the end of it.
bool StepComparer::find_parts(std::uint32_t golden) {
  std::vector<std::uint32_t> starts;
  for (const CompareInput& input : golden_.ops[golden].inputs) {
    if (input.from == kNoOp || golden_owner_[input.from] == kNone) continue;
    const std::uint32_t ours = step_.ops[golden_owner_[input.from]].target_index;
    if (ours == kNoOp) continue;
    for (const std::uint32_t reader : target_.ops[ours].readers) {
      if (target_owner_[reader] == kNone && matches_[reader].golden == kNoOp) starts.push_back(reader);
    }
  }
  for (const std::uint32_t start : starts) {
    const Group chain = chain_of(target_, target_owner_, start);
    for (std::size_t length = chain.size(); length > 1; --length) {
      const Group group(chain.begin(), chain.begin() + static_cast<std::ptrdiff_t>(length));
      Judged judged = judge(group, {golden}, MatchedBy::flow);
      const bool alike = judged.op.verdict != OpVerdict::unknown && !judged.finding && !judged.op.outputs.empty();
      if (!alike || judged.op.outputs[0].difference->relative() > kTooFar) continue;
      keep(std::move(judged), group, {golden});
      return true;
    }
  }
  return false;
}

void StepComparer::keep_alone(std::uint32_t target) {
  // A golden op without a counterpart that reads the same may be this one and what follows it.
  for (const CompareInput& input : target_.ops[target].inputs) {
    if (input.from == kNoOp || target_owner_[input.from] == kNone) continue;
    const std::uint32_t theirs = step_.ops[target_owner_[input.from]].golden_index;
    if (theirs == kNoOp) continue;
    for (const std::uint32_t reader : golden_.ops[theirs].readers) {
      if (golden_owner_[reader] == kNone && !promised_[reader] && find_parts(reader)) return;
    }
  }
  target_owner_[target] = static_cast<std::uint32_t>(step_.ops.size());
  ComparedOp& op = step_.ops.emplace_back();
  op.target_index = target;
  op.target = {target_.ops[target].op};
  op.kind = target_.ops[target].kind;
  op.verdict = OpVerdict::alone;
  op.nearest = nearest_to(target_, target, golden_);
  op.reason = "no counterpart: " + op.nearest.why;
}

// --- what an op reads

void StepComparer::add_finding(FindingKind kind, const ComparedOp& op, const CatalogOp* culprit, bool in_golden,
                               const ComparedTensor* tensor, std::string what) {
  something_differs_ = true;
  findings_.push_back({kind, index_, &op, culprit, in_golden, tensor, std::move(what)});
}

void StepComparer::look_at_inputs(ComparedOp& op, const std::vector<PairedInput>& inputs) {
  std::size_t shown = 0;
  for (const PairedInput& input : inputs) {
    if (input.difference == nullptr) continue;
    ComparedTensor& tensor = op.inputs[shown++];
    tensor.note = axes_text(*input.difference);
    if (input.difference->equal || input.golden.input == nullptr) continue;
    // A dump by MindSpore itself shows what an op has made of its inputs.
    const bool overwritten = !golden_.rank->has_journal && input.target.input->tensor->slot >= 3 &&
                             shared_type(op.target.front()->op_type).find("batchnorm") != std::string::npos;
    if (overwritten || same_producer(*input.target.input, *input.golden.input)) continue;
    if (input.target.input->from == kNoOp) {
      look_at_parameter(op, input, tensor);
    } else {
      look_at_wiring(op, input, tensor);
    }
  }
}

std::string StepComparer::what_it_holds(const CatalogTensor& target, const CatalogTensor& golden,
                                        const TensorDifference& difference) {
  if (difference.shape.size() == 2 && difference.shape == difference.golden_shape) {
    const TensorDifference turned = difference_along(of_target(&target), of_golden(&golden), {1, 0}, in_order);
    if (turned.by == ComparedBy::values && turned.relative() < kTooFar) return "it is the golden one transposed";
  }
  std::set<std::string_view> tried;
  for (const CompareOp& op : golden_.ops) {
    for (const CompareInput& input : op.inputs) {
      const CatalogTensor& other = *input.tensor;
      if (input.from != kNoOp || &other == &golden || other.tensor_name.empty() || other.file.empty()) continue;
      if (other.tensor_name == golden.tensor_name || !same_elements(target, other)) continue;
      if (!tried.insert(other.tensor_name).second) continue;
      if (tried.size() > kMostCandidates) return "";
      const TensorDifference& found = differences_.of(of_target(&target), of_golden(&other));
      if (found.comparable() && found.by == ComparedBy::values && found.relative() < 1e-6) {
        return fmt::format("it holds the golden {}{}", other.tensor_name,
                           found.axes.empty() ? "" : ", " + axes_text(found));
      }
    }
  }
  return "";
}

void StepComparer::look_at_parameter(ComparedOp& op, const PairedInput& input, ComparedTensor& shown) {
  const CatalogTensor& target = *input.target.input->tensor;
  const CatalogTensor& golden = *input.golden.input->tensor;
  // Without data flow it may come from an op before it.
  const bool known = !target.tensor_name.empty() || (target_.has_flow && golden_.has_flow);
  if (!known && something_differs_) return;
  const double seen = known ? seen_before_ : std::max(seen_, seen_before_);
  if (golden_.has_flow && input.golden.input->from != kNoOp) return look_at_wiring(op, input, shown);
  if (!is_beyond(*input.difference, allowance_of_parameter(*input.difference, seen, options_.tolerance))) return;
  // An error that an op of this step made is handed on in place, too.
  if (!known && seen_ >= kTooFar) return;
  shown.beyond = true;
  const bool is_new_name = target.tensor_name.empty() || told_names_.insert(target.tensor_name).second;
  const bool is_new_content = target.content == 0 || told_contents_.insert(target.content).second;
  if (!is_new_name || !is_new_content) return;
  if (target.constant && golden.constant) {  // a number of the program: the call is another one
    add_finding(FindingKind::number, op, op.target.front(), false, &shown,
                fmt::format("is called with {:.9g}, golden {:.9g} (input.{})", *target.constant, *golden.constant,
                            target.slot));
    return;
  }
  const bool other = !target.tensor_name.empty() && !golden.tensor_name.empty() &&
                     target.tensor_name != golden.tensor_name &&
                     op.target.back()->full_name == op.golden.back()->full_name;
  if (other) {
    add_finding(FindingKind::wiring, op, op.target.front(), false, &shown,
                fmt::format("reads {}, the golden op reads {}", target.tensor_name, golden.tensor_name));
    return;
  }
  const std::string holds = what_it_holds(target, golden, *input.difference);
  // What the other framework calls another name, and an op whose counterpart was guessed: the guess was wrong.
  const bool guessed = op.how == MatchedBy::order || op.how == MatchedBy::flow;
  if (guessed && !holds.empty() && !target.tensor_name.empty() && !golden_names_.contains(target.tensor_name)) {
    shown.note = holds;
    return;
  }
  const FindingKind kind = target.tensor_name.empty() || target.tensor_name.starts_with("data-")
                               ? FindingKind::data
                               : FindingKind::parameter;
  const std::string numbers = difference_text(kind, shown);
  add_finding(kind, op, op.target.front(), false, &shown, holds.empty() ? numbers : holds + " (" + numbers + ")");
}

void StepComparer::look_at_wiring(ComparedOp& op, const PairedInput& input, ComparedTensor& shown) {
  // Errors known from before may have come here another way.
  if (std::max(seen_, seen_before_) >= kTooFar) return;
  // Where the result is what it should be, ops before it belong to what the other side does in one.
  const bool shows = op.verdict == OpVerdict::inherited || op.verdict == OpVerdict::added;
  double result = 0;
  for (const ComparedTensor& output : op.outputs) result = std::max(result, output.difference->relative());
  if (!shows || result < kShare * input.difference->relative()) return;
  const std::uint32_t from = input.target.input->from, theirs = input.golden.input->from;
  const auto owner_of = [](const std::vector<std::uint32_t>& owners, std::uint32_t at) {
    return at == kNoOp ? kNone : owners[at];
  };
  const std::uint32_t left = owner_of(target_owner_, from);
  const bool inserted = left != kNone && step_.ops[left].golden.empty();
  const bool missing = theirs != kNoOp && golden_owner_[theirs] == kNone && !promised_[theirs];
  double epsilon = 0;  // of the coarsest type on the way
  for (std::uint32_t at = from, steps = 0; at != kNoOp && steps < kLongestChain; ++steps) {
    for (const CatalogTensor* output : target_.ops[at].outputs) epsilon = std::max(epsilon, epsilon_of(output->dtype));
    if (target_owner_[at] == kNone || !step_.ops[target_owner_[at]].golden.empty()) break;
    at = target_.ops[at].inputs.empty() ? kNoOp : target_.ops[at].inputs[0].from;
  }
  const Bound bound = allowance_of_parameter(*input.difference, seen_, options_.tolerance);
  if (!is_beyond(*input.difference, bound)) return;
  if (inserted && input.difference->relative() <= epsilon) return;
  shown.beyond = true;
  const std::string numbers = difference_text(FindingKind::wiring, shown);
  const std::string slot = fmt::format("input.{} of {}", shown.target->slot, op.target.front()->full_name);
  if (inserted) {
    add_finding(FindingKind::inserted, op, step_.ops[left].target.front(), false, &shown,
                fmt::format("has no counterpart in the golden dump, and changes {}: {}", slot, numbers));
  } else if (missing) {
    add_finding(FindingKind::missing, op, golden_.ops[theirs].op, true, &shown,
                fmt::format("has no counterpart in the target, which changes {}: {}", slot, numbers));
  } else if (left != kNone) {
    const std::string_view ours = target_.ops[from].op->full_name;
    const std::string_view golden = theirs == kNoOp ? shown.golden->tensor_name : golden_.ops[theirs].op->full_name;
    add_finding(FindingKind::wiring, op, op.target.front(), false, &shown,
                fmt::format("input.{} comes from {}, in the golden dump from {}: {}", shown.target->slot, ours,
                            golden.empty() ? "outside the step" : golden, numbers));
  }
}

// --- all of it

// All that will be looked at for certain, so that it can be read by all threads.
void StepComparer::want_all() {
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    const std::uint32_t g = matches_[t].golden;
    if (g == kNoOp) continue;
    for (const CatalogTensor* target : target_.ops[t].outputs) {
      for (const CatalogTensor* golden : golden_.ops[g].outputs) {
        if (target->slot != golden->slot || !same_elements(*target, *golden)) continue;
        differences_.want(of_target(target), of_golden(golden));
      }
    }
    if (shared_type(target_.ops[t].op->op_type) != shared_type(golden_.ops[g].op->op_type)) continue;
    for (const CompareInput& target : target_.ops[t].inputs) {
      for (const CompareInput& golden : golden_.ops[g].inputs) {
        if (target.tensor->slot != golden.tensor->slot || !same_elements(*target.tensor, *golden.tensor)) continue;
        if (!target.tensor->recorded() || !golden.tensor->recorded()) continue;
        differences_.want(of_target(target.tensor), of_golden(golden.tensor));
      }
    }
  }
  differences_.run();
}

void StepComparer::run() {
  matches_ = match_ops(target_, golden_, options_.names);
  promised_.assign(golden_.ops.size(), false);
  for (const OpMatch& match : matches_) {
    if (match.golden != kNoOp) promised_[match.golden] = true;
  }
  const auto name_all = [](const CompareSide& side, std::set<std::string_view>& names) {
    for (const CompareOp& op : side.ops) {
      for (const CompareInput& input : op.inputs) {
        if (input.from == kNoOp && !input.tensor->tensor_name.empty()) names.insert(input.tensor->tensor_name);
      }
    }
  };
  name_all(target_, target_names_);
  name_all(golden_, golden_names_);
  want_all();
  for (std::uint32_t t = 0; t < target_.ops.size(); ++t) compare_op(t);
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    if (golden_owner_[g] != kNone) continue;
    ComparedOp& op = step_.ops.emplace_back();
    op.golden_index = g;
    op.golden = {golden_.ops[g].op};
    op.kind = golden_.ops[g].kind;
    op.verdict = OpVerdict::alone;
    op.nearest = nearest_to(golden_, g, target_);
    op.reason = "no counterpart: " + op.nearest.why;
  }
}

}  // namespace

const ComparedTensor* ComparedOp::worst_output() const {
  const ComparedTensor* worst = nullptr;
  double most = -1;
  for (const ComparedTensor& output : outputs) {
    const double relative = output.difference->relative();
    const double share = output.beyond ? 1e300 : relative;
    if (share > most) {
      most = share;
      worst = &output;
    }
  }
  return worst;
}

void compare_step(ComparedStep& step, std::size_t index, const CompareOptions& options, double& seen,
                  std::vector<CompareFinding>& findings) {
  StepComparer comparer(step, index, options, seen, findings);
  comparer.run();
  seen = std::max(seen, comparer.seen());
}

}  // namespace sonde
