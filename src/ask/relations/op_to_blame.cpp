#include "ask/relations/op_to_blame.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "ask/relations/addition_left_out.h"
#include "ask/relations/bypasses.h"
#include "ask/relations/complements.h"
#include "ask/relations/data_apart.h"
#include "ask/relations/excused_ops.h"
#include "ask/relations/gru_apart.h"
#include "ask/relations/left_out_numbers.h"
#include "ask/relations/loss_apart.h"
#include "ask/relations/masks_apart.h"
#include "ask/relations/numbers_apart.h"
#include "ask/relations/order_of_parts.h"
#include "ask/relations/padding_apart.h"
#include "ask/relations/reductions_apart.h"
#include "ask/relations/regions.h"
#include "ask/relations/repeated_lines.h"
#include "ask/relations/repeats_apart.h"
#include "ask/relations/roots_of_weights.h"
#include "ask/relations/rows_apart.h"
#include "ask/relations/search.h"
#include "ask/relations/sign_apart.h"
#include "ask/relations/standings.h"
#include "ask/relations/steps_apart.h"
#include "ask/relations/tokens_apart.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// By statistics: nearly the same numbers.
bool has_nearly(const TensorPrint& a, const TensorPrint& b) {
  constexpr double kNearly = 0.1;
  const double largest = kNearly * std::max(std::abs(b.min), std::abs(b.max)), norm = kNearly * b.whole.norm;
  return b.count > 3 && !b.is_constant() && std::abs(a.min - b.min) <= largest && std::abs(a.max - b.max) <= largest &&
         std::abs(a.whole.norm - b.whole.norm) <= norm &&
         std::abs(a.whole.sum - b.whole.sum) <= norm * std::sqrt(static_cast<double>(b.count));
}

class Finder {
 public:
  Finder(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target),
        golden_(golden),
        judgement_(judgement),
        own_layout_(target, golden, judgement),
        region_(without_excused(target, golden, judgement, own_layout_)),
        roots_(roots_of(target, judgement.is_weight)),
        golden_roots_(roots_of(golden, {})),
        data_(target, golden, judgement, {region_, roots_, golden_roots_, own_layout_}),
        has_values_(target.has_values() && golden.has_values()),
        from_data_(found_from(target, [&](std::uint32_t input) { return target.tensors[input].print.count > 1; })),
        from_batch_(found_from(target, [&](std::uint32_t input) { return judgement.is_weight[input] == 0; })) {
    gather_free();
  }

  Culprit find() const {
    Culprit culprit = has_values_ ? first_by_values() : first_to_show();
    culprit.group = before_in(target_, region_, culprit.golden ? culprit.op : next_like(culprit.op));
    if (culprit.group.size() > 1) culprit.op = first_of(narrowed(culprit));
    const StepsApart steps(target_, golden_, judgement_);
    if (std::optional<Culprit> lacking = lacks_addition(culprit)) return *lacking;
    if (std::optional<Culprit> exchanged = steps.of_exchanged(culprit.op)) return *exchanged;
    if (std::optional<Culprit> exchanged = has_values_ ? std::nullopt : steps.of_exchanged_products(culprit.group))
      return *exchanged;
    const bool has_group = culprit.group.size() > 1;
    if (std::optional<NumberApart> apart = apart_in(culprit, steps)) {
      culprit.op = apart->op;
      culprit.what = std::move(apart->what);
      // The operators that follow from it cannot be the cause.
      std::erase_if(culprit.group, [&](std::uint32_t op) { return op > culprit.op; });
    } else if (std::optional<Culprit> bypass =
                   Bypasses(target_, golden_, judgement_).find(culprit.group, with_sums(culprit))) {
      bypass->uncertain = culprit.group.size() > 1;
      return *bypass;
    }
    const std::uint32_t forward = forward_of(culprit.op);
    if (forward != kNoOp) culprit.op = forward;
    if (const std::optional<Culprit> wrong = data_.read_with_weights(); wrong && wrong->op <= culprit.op)
      culprit = *wrong;
    if (const std::optional<Culprit> joined = joined_before(culprit.op)) {
      culprit = *joined;
    } else if (const std::optional<Culprit> moved = data_.moved_before(culprit)) {
      culprit = *moved;
    } else if (const std::optional<Culprit> inside = data_.read_from_inside(culprit)) {
      culprit = *inside;
    } else if (const std::optional<Culprit> other = data_.chosen_otherwise(culprit)) {
      culprit = *other;
    }
    if (const std::uint32_t flat = first_flat(target_, judgement_, culprit.op); flat != kNoOp)
      culprit = {.op = flat, .what = "gives one number everywhere of a golden tensor, and no golden operator does"};
    if (culprit.group.size() == 1) culprit.group.clear();
    culprit.uncertain =
        has_group || !culprit.group.empty() || !culprit.golden || reads_parts(culprit.op) || is_far_from(culprit);
    return culprit;
  }

 private:
  // The golden result is like it by its pattern alone: it may be another one.
  bool is_far_from(const Culprit& culprit) const {
    constexpr double kFar = 1.3;  // tensors of one size that have nothing in common: 1.4
    if (!has_values_ || !culprit.what.empty() || !culprit.like || !culprit.golden) return false;
    return difference_from(target_, *culprit.like, golden_, *culprit.golden).relative() > kFar;
  }

  // Of golden tensors: perhaps not those that it should read.
  bool reads_parts(std::uint32_t op) const {
    return std::ranges::any_of(target_.ops[op].inputs, [&](std::uint32_t input) {
      const RelationKind kind = judgement_.relations[input].kind;
      const bool is_whole =
          kind == RelationKind::same || kind == RelationKind::permuted || kind == RelationKind::constant;
      return roots_[input] == kNoOp && !is_plain(input) && !is_whole;
    });
  }

  bool is_good(std::uint32_t tensor) const { return !is_bad(judgement_.standings[tensor]); }
  bool is_plain(std::uint32_t tensor) const { return !target_.tensors[tensor].has_fractions(); }

  // A part of a sum, or its negative, which has no counterpart although nothing is wrong.
  bool is_excused(std::uint32_t op) const { return op != kNoOp && judgement_.target.has[op] && !region_.has[op]; }

  // Golden tensors of the region that correspond to nothing: what the target should have made.
  void gather_free() {
    const auto add = [&](std::uint32_t tensor) {
      if (!judgement_.met[tensor]) free_[golden_.tensors[tensor].print.count].push_back(tensor);
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

  std::optional<Culprit> lacks_addition(const Culprit& culprit) const {
    if (!has_values_ || !culprit.golden || !culprit.like || !culprit.what.empty()) return std::nullopt;
    return addition_left_out(target_, golden_, judgement_, *culprit.like, *culprit.golden);
  }

  Culprit first_by_values() const {
    if (std::optional<Culprit> culprit = first_like()) return *culprit;
    if (runs_by_tokens(target_, golden_)) {
      if (const auto op = RowsApart(target_, golden_, judgement_).first_expected()) return {.op = *op};
    }
    return {.op = first_of_known()};
  }

  // The first operator whose result is like one of the golden region, and differs.
  std::optional<Culprit> first_like() const {
    constexpr std::size_t kMostLooks = 400;
    std::size_t looks = 0;
    for (const std::uint32_t op : region_.ops) {
      if (++looks > kMostLooks) return std::nullopt;
      for (const std::uint32_t output : target_.ops[op].outputs) {
        if (roots_[output] != kNoOp) continue;  // a view of a weight
        if (judgement_.standings[output] == Standing::beyond) {
          return Culprit{.op = op, .golden = judgement_.relations[output].golden(), .like = output};
        }
        if (judgement_.standings[output] != Standing::alone) continue;
        const std::optional<std::uint32_t> other = like(op, output);
        if (other && may_be_meant(op, output, *other)) {
          return Culprit{.op = op, .golden = other, .like = output};
        }
      }
    }
    return std::nullopt;
  }

  // Parts of what corresponds are right, unless the golden run has parts like them; so are masks and distances, which
  // are made of numbers in many ways, unless they are near.
  bool may_be_meant(std::uint32_t op, std::uint32_t output, std::uint32_t other) const {
    const std::uint32_t maker = golden_.tensors[other].op;
    if (moves_or_casts(target_.op(op).kind) && from_data_[op] != 0) {
      const bool reads_good = std::ranges::all_of(target_.ops[op].inputs, [&](std::uint32_t input) {
        return is_plain(input) || (is_good(input) && judgement_.relations[input]);
      });
      const bool moves_too = maker != kNoOp && moves_or_casts(golden_.op(maker).kind);
      return !reads_good || moves_too;
    }
    constexpr double kFar = 4;
    return from_data_[op] != 0 || difference_from(target_, output, golden_, other).relative() < kFar;
  }

  // Where nothing is like a golden tensor: the first operator that computes something of what corresponds.
  std::uint32_t first_of_known() const {
    for (const std::uint32_t op : region_.ops) {
      const bool gives_fractions = !target_.ops[op].outputs.empty() && !is_plain(target_.ops[op].outputs.front());
      const bool computes = gives_fractions && from_data_[op] != 0 && !moves_or_casts(target_.op(op).kind);
      if (computes && std::ranges::all_of(target_.ops[op].inputs, [&](std::uint32_t input) { return is_known(input); }))
        return op;
    }
    return region_.ops.front();
  }

  // It corresponds, or was chosen or moved from what does.
  bool is_known(std::uint32_t tensor) const {
    if (is_plain(tensor) || is_good(tensor)) return true;
    const std::uint32_t maker = target_.tensors[tensor].op;
    if (is_excused(maker)) return true;
    if (maker == kNoOp || !moves_or_casts(target_.op(maker).kind)) return false;
    return std::ranges::all_of(target_.ops[maker].inputs, [&](std::uint32_t input) { return is_known(input); });
  }

  // By statistics: the first operator that computes numbers of what corresponds.
  Culprit first_to_show() const {
    if (std::optional<Culprit> beyond = first_like()) return *beyond;
    std::uint32_t beside = kNoOp, any = kNoOp;
    for (const std::uint32_t op : region_.ops) {
      if (!shows(op)) continue;
      const bool is_beside = golden_computes_such(op);
      const bool may_show = is_beside || from_batch_[op] != 0;
      if (!is_inside(op) && reads_known(op) && may_show) return {.op = op};
      if (is_beside && beside == kNoOp) beside = op;
      if (any == kNoOp) any = op;
    }
    const std::uint32_t first = beside != kNoOp ? beside : any != kNoOp ? any : region_.ops.front();
    return like_by_numbers(first).value_or(Culprit{.op = first});
  }

  // Whole numbers are often made in another way: the first operator that follows from them and has nearly the numbers
  // of a golden tensor.
  std::optional<Culprit> like_by_numbers(std::uint32_t first) const {
    if (!is_of_numbers(target_.ops[first].outputs.empty() ? kNoOp : target_.ops[first].outputs.front()))
      return std::nullopt;
    for (const std::uint32_t op : region_.ops) {
      if (op < first) continue;
      for (const std::uint32_t output : target_.ops[op].outputs) {
        const auto candidates = free_.find(target_.tensors[output].print.count);
        if (is_plain(output) || candidates == free_.end()) continue;
        for (const std::uint32_t other : candidates->second) {
          if (has_nearly(target_.tensors[output].print, golden_.tensors[other].print)) {
            return Culprit{.op = op, .golden = other, .like = output};
          }
        }
      }
    }
    return std::nullopt;
  }

  // The operator of which types, numbers and shapes show how it departs from the golden ones. By statistics more is
  // looked at: values show the rest.
  std::optional<NumberApart> apart_in(const Culprit& culprit, const StepsApart& steps) const {
    const NumbersApart numbers(target_, golden_, judgement_.golden.ops);
    std::optional<NumberApart> apart;
    if (culprit.group.size() > 1) apart = numbers.of_attention(culprit.group);
    if (!apart) apart = TokensApart(target_, golden_, judgement_).find();
    if (!apart) apart = padding_apart(target_, golden_, judgement_, culprit.op);
    if (!apart) apart = reduction_apart(target_, golden_, judgement_, culprit.group.back());
    if (!apart) apart = sign_apart(target_, golden_, judgement_);
    if (!apart) apart = steps.of_mask(culprit.op);
    if (!apart) apart = mask_apart(target_, golden_, culprit.group);
    if (!has_values_) {
      if (!apart) apart = repeats_apart(target_, golden_, judgement_, culprit.op);
      if (!apart) apart = steps.of_attention(culprit.group);
      if (!apart) apart = steps.of_repeats(culprit.group);
      if (!apart) apart = gru_apart(target_, golden_, judgement_);
      if (!apart) apart = steps.of_recurrence();
    }
    if (!apart) apart = steps.of_labels(culprit.group);
    if (!apart) apart = loss_apart(target_, golden_, judgement_);
    if (!apart) apart = numbers.of_norm(near_behind(culprit));
    if (apart || culprit.group.size() == 1) return apart;
    apart = numbers.of_one(culprit.group);
    return apart ? apart : left_out_with_number(target_, golden_, judgement_, culprit.group);
  }

  // Nothing of the golden run is like the result of `op`: the first operator that follows from it and has its like there,
  // by kind and size. What lies between may be meant, too.
  std::uint32_t next_like(std::uint32_t op) const {
    constexpr int kMostSteps = 6;
    for (int step = 0; step < kMostSteps && !has_values_ && !golden_computes_such(op); ++step) {
      if (target_.ops[op].outputs.empty()) return op;
      const std::vector<std::uint32_t>& readers = target_.tensors[target_.ops[op].outputs[0]].readers;
      const auto next = std::ranges::find_if(readers, [&](std::uint32_t reader) { return region_.has[reader] != 0; });
      if (next == readers.end()) return op;
      op = *next;
    }
    return op;
  }

  // By statistics, which do not show the order of elements: the operator joined what the culprit reads otherwise.
  std::optional<Culprit> joined_before(std::uint32_t op) const {
    if (has_values_) return std::nullopt;
    for (const std::uint32_t input : target_.ops[op].inputs) {
      if (auto joined = joined_otherwise(target_, golden_, judgement_, input)) return joined;
    }
    return std::nullopt;
  }

  // Of a group most of whose lines give what is golden in another layer, the others.
  Culprit narrowed(const Culprit& culprit) const {
    const std::vector<std::uint32_t> left = without_good_twin(target_, golden_, judgement_, culprit.group);
    if (left.empty()) return culprit;
    return {.op = left.front(), .like = culprit.like, .group = left};
  }

  // The group, and what else is added to its result: a part of a sum is like the sum.
  std::vector<std::uint32_t> with_sums(const Culprit& culprit) const {
    constexpr int kMostSteps = 3;
    std::uint32_t last = culprit.like ? target_.tensors[*culprit.like].op : culprit.group.back();
    for (int step = 0; step < kMostSteps && !target_.ops[last].outputs.empty(); ++step) {
      const std::vector<std::uint32_t>& readers = target_.tensors[target_.ops[last].outputs[0]].readers;
      const auto next = std::ranges::find_if(
          readers, [&](std::uint32_t reader) { return region_.has[reader] && is_sum(target_, reader); });
      if (next == readers.end()) break;
      last = *next;
    }
    return before_in(target_, region_, last);
  }

  // The group of the culprit, and the operators of a norm that may follow it.
  std::vector<std::uint32_t> near_behind(const Culprit& culprit) const {
    constexpr std::uint32_t kNear = 16;
    std::vector<std::uint32_t> near = culprit.group;
    for (const std::uint32_t op : region_.ops) {
      if (op >= culprit.op && op < culprit.op + kNear) near.push_back(op);
    }
    std::ranges::sort(near);
    return near;
  }

  bool reads_known(std::uint32_t op) const {
    return std::ranges::all_of(target_.ops[op].inputs, [&](std::uint32_t input) {
      const bool has_numbers = target_.tensors[input].print.count > 0;
      return is_plain(input) || (is_good(input) && has_numbers) || is_soft(input) ||
             is_excused(target_.tensors[input].op);
    });
  }

  // Scores of attention, which the golden run computes inside of an operator, or a mask: they may be right.
  bool is_inside(std::uint32_t op) const {
    const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
    if (!inputs.empty() && std::ranges::all_of(inputs, [&](std::uint32_t input) { return is_of_numbers(input); }))
      return true;
    return target_.op(op).kind == OpKind::contraction && !reads_weight(op) && !golden_computes_such(op);
  }

  // Whole numbers, also as another type.
  bool is_of_numbers(std::uint32_t tensor) const {
    if (tensor == kNoOp) return false;
    const std::uint32_t maker = target_.tensors[tensor].op;
    if (is_plain(tensor)) return true;
    if (maker == kNoOp || !moves_or_casts(target_.op(maker).kind) || target_.ops[maker].inputs.empty()) return false;
    return is_of_numbers(target_.ops[maker].inputs.front());
  }

  bool reads_weight(std::uint32_t op) const {
    return std::ranges::any_of(target_.ops[op].inputs, [&](std::uint32_t input) { return roots_[input] != kNoOp; });
  }

  // Also one that only this side has, such as a pad.
  bool shows_alone(std::uint32_t op) const {
    if (is_inside(op) || target_.ops[op].outputs.empty()) return false;
    const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
    const std::uint32_t output = target_.ops[op].outputs.front();
    const bool is_larger = inputs.size() == 1 && roots_[output] == kNoOp &&
                           target_.tensors[output].print.count > target_.tensors[inputs[0]].print.count;
    return shows(op) || (is_larger && !target_.tensors[output].print.is_constant());
  }

  // One that chooses elements, or makes indices or constants, has other numbers although nothing is wrong.
  bool shows(std::uint32_t op) const {
    const std::vector<std::uint32_t>& outputs = target_.ops[op].outputs;
    const auto is_no_number = [&](std::uint32_t output) {
      const TensorPrint& print = target_.tensors[output].print;
      return roots_[output] != kNoOp || print.count == 0 || (print.is_constant() && print.count > 1) ||
             (is_plain(output) && !golden_makes_such(output));
    };
    if (chooses_other_rows(op)) return true;
    if (std::ranges::all_of(outputs, is_no_number)) return false;
    return !moves_or_casts(target_.op(op).kind) || golden_chooses_such(outputs.front());
  }

  // Of a weight, of which a golden operator chooses as many elements, and others. Of several, as of experts, some may be
  // right.
  bool chooses_other_rows(std::uint32_t op) const {
    const std::vector<std::uint32_t>&inputs = target_.ops[op].inputs, &outputs = target_.ops[op].outputs;
    if (!moves_or_casts(target_.op(op).kind) || !chooses(target_, op) || inputs.empty() || outputs.empty())
      return false;
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
    const auto candidates = free_.find(count);
    return candidates != free_.end() && std::ranges::any_of(candidates->second, is_of_root);
  }

  // Elements that were chosen of what corresponds: statistics do not show which.
  bool is_soft(std::uint32_t tensor) const {
    const std::uint32_t maker = target_.tensors[tensor].op;
    if (has_values_ || maker == kNoOp || !moves_or_casts(target_.op(maker).kind)) return false;
    if (golden_chooses_such(tensor)) return false;
    return std::ranges::all_of(target_.ops[maker].inputs, [&](std::uint32_t input) {
      return is_plain(input) || is_good(input) || is_soft(input);
    });
  }

  // A golden operator of the same kind has a result of the same size, and not this one.
  bool golden_computes_such(std::uint32_t op) const {
    if (moves_or_casts(target_.op(op).kind)) return true;  // `shows` it
    return std::ranges::any_of(target_.ops[op].outputs, [&](std::uint32_t output) {
      const auto candidates = free_.find(target_.tensors[output].print.count);
      if (candidates == free_.end()) return false;
      return std::ranges::any_of(candidates->second, [&](std::uint32_t other) {
        const std::uint32_t maker = golden_.tensors[other].op;
        return maker != kNoOp && (golden_.op(maker).kind == target_.op(op).kind ||
                                  OpFamilies::same(*golden_.op(maker).family, *target_.op(op).family));
      });
    });
  }

  // A golden operator that chooses elements, too, gives as many, and not these.
  bool golden_chooses_such(std::uint32_t tensor) const {
    const auto candidates = free_.find(target_.tensors[tensor].print.count);
    if (candidates == free_.end()) return false;
    const OpFamilies::Family& family = *target_.op(target_.tensors[tensor].op).family;
    return std::ranges::any_of(candidates->second, [&](std::uint32_t other) {
      const std::uint32_t maker = golden_.tensors[other].op;
      return maker != kNoOp && OpFamilies::same(*golden_.op(maker).family, family);
    });
  }

  std::optional<std::uint32_t> like(std::uint32_t op, std::uint32_t output) const {
    const std::uint64_t count = target_.tensors[output].print.count;
    const auto candidates = free_.find(count);
    if (count < 4 || candidates == free_.end()) return std::nullopt;
    if (is_opposite_of_any(target_, output, golden_)) return std::nullopt;
    // Few elements are alike by chance.
    double most = count < 16 ? 0.9 : count < 64 ? 0.7 : 0.5;
    std::optional<std::uint32_t> best;
    constexpr std::size_t kMostCandidates = 24;
    for (std::size_t i = 0; i < std::min(candidates->second.size(), kMostCandidates); ++i) {
      const std::uint32_t other = candidates->second[i];
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

  double bonus(std::uint32_t op, std::uint32_t other) const {
    const std::uint32_t maker = golden_.tensors[other].op;
    if (maker == kNoOp) return 0;
    return OpFamilies::same(*target_.op(op).family, *golden_.op(maker).family) ? 0.1 : 0;
  }

  // Of a group: the first operator, unless the golden side computes at once what the group does step by step.
  std::uint32_t first_of(const Culprit& culprit) const {
    if (culprit.golden) {
      const PoolTensor& other = golden_.tensors[*culprit.golden];
      if (other.op == kNoOp || !judgement_.golden.has[other.op]) return culprit.op;
      const std::vector<std::uint32_t> theirs = before_in(golden_, judgement_.golden, other.op);
      const auto computes = [&](std::uint32_t op) { return !moves_or_casts(golden_.op(op).kind); };
      const bool is_at_once = !has_values_ || std::ranges::count_if(theirs, computes) <= 1;
      if (is_at_once && 2 * theirs.size() < culprit.group.size() && other.computed == nullptr) return culprit.op;
    }
    const auto is_of_data = [&](std::uint32_t op) { return from_data_[op] != 0 || (has_values_ && is_like_any(op)); };
    const bool has_data = std::ranges::any_of(culprit.group, is_of_data);
    std::uint32_t placed = kNoOp;
    for (const std::uint32_t op : culprit.group) {
      if (!has_values_) {
        if (shows_alone(op) && reads_known(op)) return op;
        continue;
      }
      // Masks and distances are made of numbers in many ways, unless the golden run has nearly the same.
      if (has_data && !is_of_data(op)) continue;
      const std::vector<std::uint32_t>&inputs = target_.ops[op].inputs, &outputs = target_.ops[op].outputs;
      // Indices and masks are often made in another way.
      const bool makes_indices = std::ranges::all_of(outputs, [&](std::uint32_t output) { return is_plain(output); });
      if (inputs.empty() || (makes_indices && !golden_makes_such(outputs.front()))) continue;
      const auto is_known = [&](std::uint32_t input) {
        const std::uint32_t maker = target_.tensors[input].op;
        return is_plain(input) || is_good(input) || is_excused(maker) || (maker != kNoOp && !is_of_data(maker));
      };
      if (!std::ranges::all_of(inputs, is_known)) continue;
      if (!places_in_own_layout(op)) return op;
      if (placed == kNoOp) placed = op;
    }
    return placed != kNoOp ? placed : culprit.op;
  }

  // Numbers that are right are put among others in a way that the golden run does not need: behind it, something computes.
  bool places_in_own_layout(std::uint32_t op) const {
    return target_.is_type(op, "scatter") && own_layout_.is_own(target_.ops[op].outputs.front());
  }

  bool is_like_any(std::uint32_t op) const {
    return std::ranges::any_of(target_.ops[op].outputs,
                               [&](std::uint32_t output) { return like(op, output).has_value(); });
  }

  // By operator: its results depend on such a tensor from outside.
  static std::vector<char> found_from(const Pool& pool, const auto& is_source) {
    std::vector<char> from(pool.ops.size());
    for (std::uint32_t op = 0; op < pool.ops.size(); ++op) {
      from[op] = std::ranges::any_of(pool.ops[op].inputs, [&](std::uint32_t input) {
        const std::uint32_t maker = pool.tensors[input].op;
        return maker != kNoOp ? from[maker] != 0 : is_source(input);
      });
    }
    return from;
  }

  // An operator of the golden region of the same type gives as many integers.
  bool golden_makes_such(std::uint32_t tensor) const {
    const std::string_view type = target_.catalog_op(target_.tensors[tensor].op).op_type;
    return std::ranges::any_of(judgement_.golden.ops, [&](std::uint32_t op) {
      if (golden_.catalog_op(op).op_type != type) return false;
      return std::ranges::any_of(golden_.ops[op].outputs, [&](std::uint32_t output) {
        return !judgement_.met[output] && golden_.tensors[output].print.count == target_.tensors[tensor].print.count;
      });
    });
  }

  // The operator of the forward pass whose gradient `op` computes; kNoOp: none, or its results are good.
  std::uint32_t forward_of(std::uint32_t op) const {
    const ForwardOrigin origin = differentiated_by(target_.op(op));
    if (origin.type.empty()) return kNoOp;
    const std::string inside = std::string(origin.scope) + "/";
    const CatalogOp& own = target_.catalog_op(op);
    for (std::uint32_t i = 0; i < op; ++i) {
      const CatalogOp& other = target_.catalog_op(i);
      if (target_.ops[i].step != target_.ops[op].step || other.op_type != origin.type || other.line != own.line)
        continue;
      if (!other.op_name.starts_with(inside)) continue;
      if (std::ranges::any_of(target_.ops[i].outputs, [&](std::uint32_t output) { return is_bad_loss(output); }))
        return i;
    }
    return kNoOp;
  }

  // It differs, and nothing but the backward pass reads it.
  bool is_bad_loss(std::uint32_t tensor) const {
    return !is_good(tensor) && std::ranges::all_of(target_.tensors[tensor].readers, [&](std::uint32_t reader) {
      return phase_of(target_.catalog_op(reader)) != Phase::forward;
    });
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const OwnLayout own_layout_;
  const Region region_;  // of the target
  const std::vector<std::uint32_t> roots_, golden_roots_;
  const DataApart data_;
  const bool has_values_;
  // By operator of the target: it depends on what the program reads, with weights or without. Masks and distances do not.
  const std::vector<char> from_data_, from_batch_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> free_;  // by number of elements, in order
};

}  // namespace

Culprit op_to_blame(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  return Finder(target, golden, judgement).find();
}

}  // namespace sonde
