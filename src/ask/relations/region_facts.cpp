#include "ask/relations/region_facts.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ask/relations/complements.h"
#include "ask/relations/excused_ops.h"
#include "ask/relations/partial_weights.h"
#include "ask/relations/roots_of_weights.h"
#include "ask/relations/search.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// By operator: its results depend on such a tensor from outside.
std::vector<char> found_from(const Pool& pool, const auto& is_source) {
  std::vector<char> from(pool.ops.size());
  for (std::uint32_t op = 0; op < pool.ops.size(); ++op) {
    from[op] = std::ranges::any_of(pool.ops[op].inputs, [&](std::uint32_t input) {
      const std::uint32_t maker = pool.tensors[input].op;
      return maker != kNoOp ? from[maker] != 0 : is_source(input);
    });
  }
  return from;
}

}  // namespace

RegionFacts::RegionFacts(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
    : target_(target),
      golden_(golden),
      judgement_(judgement),
      own_layout_(target, golden, judgement),
      region_(without_excused(target, golden, judgement, own_layout_)),
      roots_(roots_of(target, judgement.is_weight)),
      golden_roots_(roots_of(golden, {})),
      has_values_(target.has_values() && golden.has_values()),
      from_data_(found_from(target, [&](std::uint32_t input) { return target.tensors[input].print.count > 1; })),
      from_batch_(found_from(target, [&](std::uint32_t input) { return judgement.is_weight[input] == 0; })) {
  gather_missed();
}

const std::vector<std::uint32_t>& RegionFacts::missed_of_size(std::uint64_t count) const {
  static const std::vector<std::uint32_t> kNone;
  const auto found = missed_.find(count);
  return found == missed_.end() ? kNone : found->second;
}

bool RegionFacts::reads_parts(std::uint32_t op) const {
  return std::ranges::any_of(target_.ops[op].inputs, [&](std::uint32_t input) {
    const RelationKind kind = judgement_.relations[input].kind;
    const bool is_whole =
        kind == RelationKind::same || kind == RelationKind::permuted || kind == RelationKind::constant;
    return roots_[input] == kNoOp && !is_plain(input) && !is_whole;
  });
}

bool RegionFacts::is_excused(std::uint32_t op) const {
  return op != kNoOp && judgement_.target.has[op] && !region_.has[op];
}

// Golden tensors of the region that correspond to nothing: what the target should have made.
void RegionFacts::gather_missed() {
  const auto add = [&](std::uint32_t tensor) {
    if (!judgement_.met[tensor]) missed_[golden_.tensors[tensor].print.count].push_back(tensor);
  };
  for (const std::uint32_t op : judgement_.golden.ops) std::ranges::for_each(golden_.ops[op].outputs, add);
  for (std::uint32_t i = 0; i < golden_.tensors.size(); ++i) {
    if (golden_.tensors[i].computed != nullptr && judgement_.golden.has[golden_.tensors[i].op]) add(i);
  }
  for (const std::uint32_t op : judgement_.golden.ops) {
    for (const std::uint32_t input : golden_.ops[op].inputs) {
      if (golden_.tensors[input].op == kNoOp) add(input);
    }
  }
}

bool RegionFacts::is_known(std::uint32_t tensor) const {
  if (is_plain(tensor) || is_good(tensor)) return true;
  const std::uint32_t maker = target_.tensors[tensor].op;
  if (is_excused(maker)) return true;
  if (maker == kNoOp || !moves_or_casts(target_.op(maker).kind)) return false;
  return std::ranges::all_of(target_.ops[maker].inputs, [&](std::uint32_t input) { return is_known(input); });
}

bool RegionFacts::reads_known(std::uint32_t op) const {
  return std::ranges::all_of(target_.ops[op].inputs, [&](std::uint32_t input) {
    const bool has_numbers = target_.tensors[input].print.count > 0;
    return is_plain(input) || (is_good(input) && has_numbers) || is_soft(input) ||
           is_excused(target_.tensors[input].op);
  });
}

bool RegionFacts::is_inside(std::uint32_t op) const {
  const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
  if (!inputs.empty() && std::ranges::all_of(inputs, [&](std::uint32_t input) { return is_of_numbers(input); }))
    return true;
  if (target_.op(op).kind != OpKind::contraction || reads_weight(op)) return false;
  return gives_scores(op) || !golden_computes_such(op);
}

// Scores of a softmax, where the golden run has them inside of an operator: its result may have their size by chance.
bool RegionFacts::gives_scores(std::uint32_t op) const {
  const auto is_attention = [&](std::uint32_t other) { return golden_.is_type(other, "scaleddotproductattention"); };
  if (std::ranges::none_of(judgement_.golden.ops, is_attention) || target_.ops[op].outputs.size() != 1) return false;
  constexpr int kMostSteps = 6;
  std::uint32_t tensor = target_.ops[op].outputs[0];
  for (int step = 0; step < kMostSteps; ++step) {
    const std::vector<std::uint32_t>& readers = target_.tensors[tensor].readers;
    if (std::ranges::any_of(readers, [&](std::uint32_t reader) { return target_.is_type(reader, "softmax"); }))
      return true;
    const auto next = std::ranges::find_if(readers, [&](std::uint32_t reader) {
      const OpKind kind = target_.op(reader).kind;
      return target_.is_of_forward(reader) && (moves_or_casts(kind) || kind == OpKind::elementwise);
    });
    if (next == readers.end() || target_.ops[*next].outputs.size() != 1) return false;
    tensor = target_.ops[*next].outputs[0];
  }
  return false;
}

bool RegionFacts::is_own_table(std::uint32_t tensor) const {
  return target_.tensors[tensor].is_weight() && !judgement_.relations[tensor] &&
         !golden_lacks_any_for(target_, tensor, golden_, judgement_.met);
}

bool RegionFacts::is_of_numbers(std::uint32_t tensor) const {
  if (tensor == kNoOp) return false;
  const std::uint32_t maker = target_.tensors[tensor].op;
  if (is_plain(tensor)) return true;
  if (maker == kNoOp || !moves_or_casts(target_.op(maker).kind) || target_.ops[maker].inputs.empty()) return false;
  return is_of_numbers(target_.ops[maker].inputs.front());
}

bool RegionFacts::reads_weight(std::uint32_t op) const {
  return std::ranges::any_of(target_.ops[op].inputs, [&](std::uint32_t input) { return roots_[input] != kNoOp; });
}

bool RegionFacts::shows_alone(std::uint32_t op) const {
  if (is_inside(op) || target_.ops[op].outputs.empty()) return false;
  const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
  const std::uint32_t output = target_.ops[op].outputs.front();
  const bool is_larger = inputs.size() == 1 && roots_[output] == kNoOp &&
                         target_.tensors[output].print.count > target_.tensors[inputs[0]].print.count;
  return shows(op) || (is_larger && !target_.tensors[output].print.is_constant());
}

// Statistics of keys so far, and of scores with them, are in no golden tensor, nor do they add up to one.
bool RegionFacts::grows_over_steps(std::uint32_t op) const {
  if (has_values_ || target_.steps.size() < 2 || target_.ops[op].outputs.empty()) return false;
  const std::uint64_t count = target_.tensors[target_.ops[op].outputs.front()].print.count;
  const std::string_view name = target_.catalog_op(op).op_name;
  for (std::uint32_t other = 0; other < target_.ops.size(); ++other) {
    if (target_.ops[other].step == target_.ops[op].step || target_.catalog_op(other).op_name != name) continue;
    const std::vector<std::uint32_t>& outputs = target_.ops[other].outputs;
    if (!outputs.empty() && target_.tensors[outputs.front()].print.count != count) return true;
  }
  return false;
}

bool RegionFacts::shows(std::uint32_t op) const {
  const std::vector<std::uint32_t>& outputs = target_.ops[op].outputs;
  const auto is_no_number = [&](std::uint32_t output) {
    const TensorPrint& print = target_.tensors[output].print;
    return roots_[output] != kNoOp || print.count == 0 || (print.is_constant() && print.count > 1) ||
           (is_plain(output) && !golden_makes_such(output));
  };
  if (chooses_other_rows(op)) return true;
  if (std::ranges::all_of(outputs, is_no_number) || grows_over_steps(op)) return false;
  return !moves_or_casts(target_.op(op).kind) || golden_chooses_such(outputs.front());
}

// Of a weight, of which a golden operator chooses as many elements, and others. Of several, as of experts, some may be
// right.
bool RegionFacts::chooses_other_rows(std::uint32_t op) const {
  const std::vector<std::uint32_t>&inputs = target_.ops[op].inputs, &outputs = target_.ops[op].outputs;
  if (!moves_or_casts(target_.op(op).kind) || !chooses(target_, op) || inputs.empty() || outputs.empty()) return false;
  const std::uint32_t root = roots_[outputs[0]];
  if (root == kNoOp || is_good(outputs[0]) || !is_surely_golden(judgement_, root)) return false;
  const std::uint64_t count = target_.tensors[outputs[0]].print.count;
  const auto is_another = [&](const PoolOp& other) {
    return &other != &target_.ops[op] && !other.outputs.empty() && roots_[other.outputs[0]] == root &&
           target_.tensors[other.outputs[0]].print.count == count;
  };
  if (std::ranges::any_of(target_.ops, is_another)) return false;
  const auto is_of_root = [&](std::uint32_t other) {
    const std::uint32_t maker = golden_.tensors[other].op;
    if (maker == kNoOp) return false;
    const std::vector<std::uint32_t>& read = golden_.ops[maker].inputs;
    const std::uint32_t wanted = judgement_.relations[root].golden();
    return std::ranges::any_of(read, [&](std::uint32_t input) { return golden_roots_[input] == wanted; });
  };
  return std::ranges::any_of(missed_of_size(count), is_of_root);
}

// Elements that were chosen of what corresponds: statistics do not show which.
bool RegionFacts::is_soft(std::uint32_t tensor) const {
  const std::uint32_t maker = target_.tensors[tensor].op;
  if (has_values_ || maker == kNoOp || !moves_or_casts(target_.op(maker).kind)) return false;
  if (golden_chooses_such(tensor)) return false;
  return std::ranges::all_of(target_.ops[maker].inputs,
                             [&](std::uint32_t input) { return is_plain(input) || is_good(input) || is_soft(input); });
}

bool RegionFacts::golden_computes_such(std::uint32_t op) const {
  if (moves_or_casts(target_.op(op).kind)) return true;  // `shows` it
  return std::ranges::any_of(target_.ops[op].outputs, [&](std::uint32_t output) {
    const std::vector<std::uint32_t>& candidates = missed_of_size(target_.tensors[output].print.count);
    return std::ranges::any_of(candidates, [&](std::uint32_t other) {
      const std::uint32_t maker = golden_.tensors[other].op;
      return maker != kNoOp && (golden_.op(maker).kind == target_.op(op).kind ||
                                OpFamilies::same(*golden_.op(maker).family, *target_.op(op).family));
    });
  });
}

// A golden operator that chooses elements, too, gives as many, and not these.
bool RegionFacts::golden_chooses_such(std::uint32_t tensor) const {
  const std::vector<std::uint32_t>& candidates = missed_of_size(target_.tensors[tensor].print.count);
  const OpFamilies::Family& family = *target_.op(target_.tensors[tensor].op).family;
  return std::ranges::any_of(candidates, [&](std::uint32_t other) {
    const std::uint32_t maker = golden_.tensors[other].op;
    return maker != kNoOp && OpFamilies::same(*golden_.op(maker).family, family);
  });
}

std::optional<std::uint32_t> RegionFacts::like(std::uint32_t op, std::uint32_t output) const {
  const std::uint64_t count = target_.tensors[output].print.count;
  const std::vector<std::uint32_t>& candidates = missed_of_size(count);
  if (count < 4 || candidates.empty()) return std::nullopt;
  if (is_opposite_of_any(target_, output, golden_)) return std::nullopt;
  // Few elements are alike by chance.
  double most = count < 16 ? 0.9 : count < 64 ? 0.7 : 0.5;
  std::optional<std::uint32_t> best;
  constexpr std::size_t kMostCandidates = 24;
  for (std::size_t i = 0; i < std::min(candidates.size(), kMostCandidates); ++i) {
    const std::uint32_t other = candidates[i];
    if (is_plain(output) == golden_.tensors[other].has_fractions() && golden_.tensors[other].computed == nullptr) {
      continue;
    }
    // Distances are not like the masks that follow from them.
    if (is_flag(target_.tensors[output]) != is_flag(golden_.tensors[other]) && is_plain(output)) continue;
    const double likeness = likeness_of(target_, output, golden_, other) + bonus(op, other);
    if (likeness <= most) continue;
    most = likeness;
    best = other;
  }
  // Whole numbers are like sums inside of an operator by chance.
  if (best && is_plain(output) && !golden_.tensors[*best].print.whole_numbers) return std::nullopt;
  return best;
}

double RegionFacts::bonus(std::uint32_t op, std::uint32_t other) const {
  const std::uint32_t maker = golden_.tensors[other].op;
  if (maker == kNoOp) return 0;
  return OpFamilies::same(*target_.op(op).family, *golden_.op(maker).family) ? 0.1 : 0;
}

bool RegionFacts::places_in_own_layout(std::uint32_t op) const {
  return target_.is_type(op, "scatter") && own_layout_.is_own(target_.ops[op].outputs.front());
}

bool RegionFacts::is_like_any(std::uint32_t op) const {
  return std::ranges::any_of(target_.ops[op].outputs,
                             [&](std::uint32_t output) { return like(op, output).has_value(); });
}

bool RegionFacts::golden_makes_such(std::uint32_t tensor) const {
  const std::string_view type = target_.catalog_op(target_.tensors[tensor].op).op_type;
  return std::ranges::any_of(judgement_.golden.ops, [&](std::uint32_t op) {
    if (golden_.catalog_op(op).op_type != type) return false;
    return std::ranges::any_of(golden_.ops[op].outputs, [&](std::uint32_t output) {
      return !judgement_.met[output] && golden_.tensors[output].print.count == target_.tensors[tensor].print.count;
    });
  });
}

}  // namespace sonde
