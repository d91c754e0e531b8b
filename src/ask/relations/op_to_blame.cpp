#include "ask/relations/op_to_blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "ask/relations/addition_left_out.h"
#include "ask/relations/bypasses.h"
#include "ask/relations/complements.h"
#include "ask/relations/data_apart.h"
#include "ask/relations/exchanged_weights.h"
#include "ask/relations/golden_in_place.h"
#include "ask/relations/gru_apart.h"
#include "ask/relations/left_out_numbers.h"
#include "ask/relations/loss_apart.h"
#include "ask/relations/masks_apart.h"
#include "ask/relations/numbers_apart.h"
#include "ask/relations/order_apart.h"
#include "ask/relations/order_of_parts.h"
#include "ask/relations/padding_apart.h"
#include "ask/relations/powers_apart.h"
#include "ask/relations/reductions_apart.h"
#include "ask/relations/region_facts.h"
#include "ask/relations/regions.h"
#include "ask/relations/repeated_lines.h"
#include "ask/relations/repeats_apart.h"
#include "ask/relations/rows_apart.h"
#include "ask/relations/scales_apart.h"
#include "ask/relations/search.h"
#include "ask/relations/sign_apart.h"
#include "ask/relations/standings.h"
#include "ask/relations/steps_apart.h"
#include "ask/relations/tokens_apart.h"
#include "ask/relations/trials.h"
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
        facts_(target, golden, judgement),
        region_(facts_.region()),
        data_(target, golden, judgement, {region_, facts_.roots(), facts_.golden_roots(), facts_.own_layout()}),
        has_values_(target.has_values() && golden.has_values()) {}

  Culprit find() const {
    if (std::optional<Culprit> powers = powers_apart(target_, golden_, judgement_)) return *powers;
    Culprit culprit = named();
    bool is_exchanged = false;
    if (has_values_ && culprit.what.empty()) {
      if (std::optional<Culprit> old = reads_old_weight(culprit)) return *old;
      is_exchanged = reads_exchanged(target_, golden_, judgement_, culprit.op);
      if (is_exchanged) culprit.uncertain = true;
      if (culprit.uncertain) try_others(culprit, is_exchanged);
      if (culprit.what.empty()) {
        if (std::optional<Culprit> moved = data_.put_in_another_order(culprit.op)) return *moved;
      }
    }
    if (has_values_ && !is_exchanged && !culprit.weight && (culprit.what.empty() || culprit.uncertain))
      look_before_golden(culprit);
    return culprit;
  }

 private:
  // A golden weight as it was in an earlier step, where the golden operator reads what it has become.
  std::optional<Culprit> reads_old_weight(const Culprit& culprit) const {
    const std::uint32_t other = culprit.golden ? golden_.tensors[*culprit.golden].op : kNoOp;
    if (other == kNoOp) return std::nullopt;
    for (const std::uint32_t input : target_.ops[culprit.op].inputs) {
      if (target_.tensors[input].op != kNoOp || !is_surely_golden(judgement_, input)) continue;
      const std::uint32_t old = judgement_.relations[input].golden();
      const std::uint32_t step = golden_.tensors[old].step;
      if (!golden_.tensors[old].is_weight() || step >= golden_.ops[other].step) continue;
      const auto is_newer = [&](std::uint32_t read) {
        return read != kNoOp && golden_.tensors[read].step > step && golden_.name_of(read) == golden_.name_of(old) &&
               !have_same_values(target_, input, golden_, read);
      };
      const std::vector<std::uint32_t>& theirs = golden_.ops[other].inputs;
      if (std::ranges::none_of(theirs, [&](std::uint32_t read) { return is_newer(facts_.golden_roots()[read]); }))
        continue;
      return Culprit{.op = culprit.op,
                     .weight = input,
                     .golden = old,
                     .uncertain = true,
                     .what = fmt::format("is golden {} as it was in step {}, and the golden run reads what it became",
                                         golden_.name_of(old), golden_.steps[step]->step->id.number)};
    }
    return std::nullopt;
  }

  // If the result is golden with one operator changed, that one is named. `of_weights`: also one that moves a weight.
  void try_others(Culprit& culprit, bool of_weights) const {
    constexpr std::size_t kMost = 40;
    std::vector<std::uint32_t> ops = culprit.group.empty() ? std::vector{culprit.op} : culprit.group;
    if (ops.size() > kMost) return;
    // Operators that only move their inputs may be meant, too.
    for (std::size_t i = 0; i < ops.size() && ops.size() < kMost; ++i) {
      for (const std::uint32_t input : target_.ops[ops[i]].inputs) {
        const std::uint32_t maker = target_.tensors[input].op;
        const bool moves =
            maker != kNoOp && moves_or_casts(target_.op(maker).kind) && (of_weights || facts_.roots()[input] == kNoOp);
        // Rows are looked up by numbers, which are made in many ways.
        const bool counts = maker != kNoOp && facts_.is_plain(input);
        if ((moves || counts) && std::ranges::find(ops, maker) == ops.end()) ops.push_back(maker);
      }
    }
    std::ranges::sort(ops);
    const std::uint32_t least = culprit.like ? target_.tensors[*culprit.like].op : ops.back();
    for (const std::uint32_t op : region_.ops) {
      if (ops.size() < kMost && op > ops.back()) ops.push_back(op);
    }
    const std::optional<Trial> trial = mended_by(target_, golden_, judgement_, region_, ops, least);
    if (!trial) return;
    culprit = {.op = trial->op,
               .weight = trial->weight,
               .golden = trial->golden,
               .like = trial->like,
               .uncertain = true,
               .was_lost = trial->weight.has_value(),
               .what = trial->what};
  }

  // With a golden tensor in the place of a result, what follows is golden: the cause is this result's operator, or lies
  // before it. What else has no counterpart may be right.
  void look_before_golden(Culprit& culprit) const {
    const std::optional<GoldenInPlace> found = golden_in_place(target_, golden_, judgement_, region_);
    if (!found) return;
    const bool is_before = std::ranges::find(found->before, culprit.op) != found->before.end();
    if (!culprit.what.empty() && (is_before || !found->reads_golden || follows_from(target_, found->op, culprit.op)))
      return;
    if (found->reads_golden) {
      culprit = {.op = found->op,
                 .golden = found->golden,
                 .like = found->tensor,
                 .shows_error = true,
                 .what = text_of(*found, target_, golden_)};
      return;
    }
    const std::vector<std::uint32_t>& before = found->before;
    if (is_before) {
      std::erase_if(culprit.group, [&](std::uint32_t op) { return std::ranges::find(before, op) == before.end(); });
    } else {
      const std::uint32_t other = culprit.op;
      culprit = {.op = found->op, .golden = found->golden, .like = found->tensor, .group = before, .uncertain = true};
      culprit.op = first_of(culprit);
      // Before it, an operator may be left out.
      if (follows_from(target_, found->op, other)) culprit.group.push_back(other);
    }
    if (culprit.group.size() == 1) culprit.group.clear();
  }

  Culprit named() const {
    Culprit culprit = has_values_ ? first_by_values() : first_to_show();
    culprit.group = before_in(target_, region_, culprit.golden ? culprit.op : next_like(culprit.op));
    if (has_values_) erase_shown_right(culprit.group);
    if (culprit.group.size() > 1) culprit.op = first_of(narrowed(culprit));
    const StepsApart steps(target_, golden_, judgement_);
    if (std::optional<Culprit> lacking = lacks_addition(culprit)) return *lacking;
    if (std::optional<Culprit> exchanged = steps.of_exchanged(culprit.op)) return *exchanged;
    if (std::optional<Culprit> exchanged = steps.of_exchanged_products(culprit.group)) return *exchanged;
    if (auto exchanged = exchanged_weight(target_, golden_, judgement_, culprit.op, culprit.group, facts_.roots()))
      return *exchanged;
    if (auto exchanged = exchanged_weight(target_, golden_, judgement_, culprit.op, attentions(), facts_.roots()))
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
    if (culprit.what.empty()) culprit.op = first_maker_of_flags(target_, judgement_, culprit.op);
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
    if (culprit.what.empty()) culprit.op = writer_of_part(culprit.op);
    if (const std::uint32_t flat = first_flat(target_, judgement_, culprit.op); flat != kNoOp)
      culprit = {.op = flat, .what = "gives one number everywhere of a golden tensor, and no golden operator does"};
    if (culprit.group.size() == 1) culprit.group.clear();
    culprit.uncertain = has_group || !culprit.group.empty() || !culprit.golden || facts_.reads_parts(culprit.op) ||
                        is_far_from(culprit) || gives_numbers(culprit);
    return culprit;
  }

  // It gives more of a buffer than an operator before it wrote there: that one wrote elsewhere, or not all.
  std::uint32_t writer_of_part(std::uint32_t op) const {
    const PoolOp& own = target_.ops[op];
    if (!target_.is_type(op, "slice") || own.inputs.size() != 1 || own.outputs.size() != 1) return op;
    const std::uint32_t maker = target_.tensors[own.inputs[0]].op;
    const bool is_more = target_.tensors[own.outputs[0]].print.count > target_.tensors[own.inputs[0]].print.count;
    return maker != kNoOp && is_more ? maker : op;
  }

  // They read keys and values as they come, where the operators before them are written out.
  std::vector<std::uint32_t> attentions() const {
    std::vector<std::uint32_t> ops;
    for (const std::uint32_t op : region_.ops) {
      if (target_.is_type(op, "scaleddotproductattention") && target_.is_of_forward(op)) ops.push_back(op);
    }
    return ops;
  }

  // The golden result is like it by its pattern alone: it may be another one.
  bool is_far_from(const Culprit& culprit) const {
    constexpr double kFar = 1.3;  // tensors of one size that have nothing in common: 1.4
    if (!has_values_ || !culprit.what.empty() || !culprit.like || !culprit.golden) return false;
    return difference_from(target_, *culprit.like, golden_, *culprit.golden).relative() > kFar;
  }

  // Whole numbers are made in many ways: those that differ first may follow from another operator.
  bool gives_numbers(const Culprit& culprit) const {
    return culprit.what.empty() && culprit.like && facts_.is_plain(*culprit.like) &&
           target_.ops[culprit.op].inputs.size() > 1;
  }

  std::optional<Culprit> lacks_addition(const Culprit& culprit) const {
    if (!has_values_ || !culprit.golden || !culprit.like || !culprit.what.empty()) return std::nullopt;
    if (golden_.tensors[*culprit.golden].op == kNoOp) return std::nullopt;
    if (auto mask = mask_left_out(target_, golden_, judgement_, *culprit.like, *culprit.golden)) return mask;
    return addition_left_out(target_, golden_, judgement_, *culprit.like, *culprit.golden);
  }

  Culprit first_by_values() const {
    const bool by_tokens = runs_by_tokens(target_, golden_);
    if (by_tokens) {
      if (const auto op = RowsApart(target_, golden_, judgement_).first_expected(true)) return {.op = *op};
    }
    if (std::optional<Culprit> culprit = first_like()) return *culprit;
    if (by_tokens) {
      if (const auto op = RowsApart(target_, golden_, judgement_).first_expected(false)) return {.op = *op};
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
        if (facts_.roots()[output] != kNoOp) continue;  // a view of a weight
        if (judgement_.standings[output] == Standing::beyond) {
          return Culprit{.op = op, .golden = judgement_.relations[output].golden(), .like = output};
        }
        if (judgement_.standings[output] != Standing::alone) continue;
        const std::optional<std::uint32_t> other = facts_.like(op, output);
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
    if (moves_or_casts(target_.op(op).kind) && facts_.is_of_data(op)) {
      const bool reads_good = std::ranges::all_of(target_.ops[op].inputs, [&](std::uint32_t input) {
        return facts_.is_plain(input) || (facts_.is_good(input) && judgement_.relations[input]);
      });
      const bool moves_too = maker != kNoOp && moves_or_casts(golden_.op(maker).kind);
      return !reads_good || moves_too;
    }
    constexpr double kFar = 4;
    return facts_.is_of_data(op) || difference_from(target_, output, golden_, other).relative() < kFar;
  }

  // Where nothing is like a golden tensor: the first operator that computes something of what corresponds.
  std::uint32_t first_of_known() const {
    for (const bool of_data : {true, false}) {
      for (const std::uint32_t op : region_.ops) {
        const std::vector<std::uint32_t>&inputs = target_.ops[op].inputs, &outputs = target_.ops[op].outputs;
        const bool gives_fractions = !outputs.empty() && !facts_.is_plain(outputs.front());
        const bool computes = gives_fractions && !moves_or_casts(target_.op(op).kind) && !inputs.empty();
        if (!computes || (of_data && !facts_.is_of_data(op))) continue;
        if (std::ranges::all_of(inputs, [&](std::uint32_t input) { return facts_.is_known(input); })) return op;
      }
    }
    return region_.ops.front();
  }

  // By statistics: the first operator that computes numbers of what corresponds.
  Culprit first_to_show() const {
    const std::optional<Culprit> beyond = first_like();
    std::uint32_t beside = kNoOp, any = kNoOp;
    for (const std::uint32_t op : region_.ops) {
      if (beyond && op >= beyond->op) return *beyond;
      if (!facts_.shows(op)) continue;
      const bool is_beside = facts_.golden_computes_such(op);
      const bool may_show = is_beside || facts_.is_of_batch(op);
      if (!facts_.is_inside(op) && facts_.reads_known(op) && may_show) return {.op = op};
      if (is_beside && beside == kNoOp) beside = op;
      if (any == kNoOp) any = op;
    }
    const std::uint32_t first = beside != kNoOp ? beside : any != kNoOp ? any : region_.ops.front();
    return like_by_numbers(first).value_or(Culprit{.op = first});
  }

  // Whole numbers are often made in another way: the first operator that follows from them and has nearly the numbers
  // of a golden tensor.
  std::optional<Culprit> like_by_numbers(std::uint32_t first) const {
    if (!facts_.is_of_numbers(target_.ops[first].outputs.empty() ? kNoOp : target_.ops[first].outputs.front()))
      return std::nullopt;
    for (const std::uint32_t op : region_.ops) {
      if (op < first) continue;
      for (const std::uint32_t output : target_.ops[op].outputs) {
        if (facts_.is_plain(output)) continue;
        for (const std::uint32_t other : facts_.missed_of_size(target_.tensors[output].print.count)) {
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
    apart = scale_apart(target_, golden_, judgement_, culprit.group);
    if (!apart && culprit.group.size() > 1) apart = numbers.of_attention(culprit.group);
    if (!apart) apart = TokensApart(target_, golden_, judgement_).find();
    if (!apart) apart = padding_apart(target_, golden_, judgement_, culprit.op);
    if (!apart) apart = reduction_apart(target_, golden_, judgement_, culprit.group.back());
    if (!apart) apart = sign_apart(target_, golden_, judgement_);
    if (!apart) apart = steps.of_mask(culprit.op);
    if (!apart) apart = mask_apart(target_, golden_, culprit.group);
    if (!has_values_) {
      if (!apart) apart = order_apart(target_, golden_, judgement_, culprit.op);
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
    for (int step = 0; step < kMostSteps && !has_values_ && !facts_.golden_computes_such(op); ++step) {
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

  // A product or a sum of the tensor is golden, as that of a mask that another layer reads, too.
  bool is_shown_right(std::uint32_t tensor) const {
    return std::ranges::any_of(target_.tensors[tensor].readers, [&](std::uint32_t reader) {
      const OpKind kind = target_.op(reader).kind;
      const bool keeps_errors = kind == OpKind::contraction || kind == OpKind::elementwise;
      return keeps_errors && std::ranges::all_of(target_.ops[reader].outputs, [&](std::uint32_t output) {
               return is_surely_golden(judgement_, output) && target_.tensors[output].has_fractions();
             });
    });
  }

  // Operators of a group whose results other readers show to be right, and those before that nothing else reads. The last
  // one stays.
  void erase_shown_right(std::vector<std::uint32_t>& group) const {
    std::vector<char> is_right(target_.ops.size()), is_of_group(target_.ops.size());
    for (const std::uint32_t op : group) is_of_group[op] = 1;
    for (auto op = group.rbegin(); op != group.rend(); ++op) {
      if (op == group.rbegin()) continue;
      is_right[*op] = std::ranges::all_of(target_.ops[*op].outputs, [&](std::uint32_t output) {
        const std::vector<std::uint32_t>& readers = target_.tensors[output].readers;
        const auto is_of_it = [&](std::uint32_t reader) { return is_of_group[reader] != 0; };
        const auto are_wrong = [&](std::uint32_t reader) { return is_of_group[reader] != 0 && !is_right[reader]; };
        return is_shown_right(output) ||
               (std::ranges::any_of(readers, is_of_it) && std::ranges::none_of(readers, are_wrong));
      });
    }
    std::erase_if(group, [&](std::uint32_t op) { return is_right[op] != 0; });
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
    const auto is_of_data = [&](std::uint32_t op) {
      return facts_.is_of_data(op) || (has_values_ && facts_.is_like_any(op));
    };
    const bool has_data = std::ranges::any_of(culprit.group, is_of_data);
    std::uint32_t placed = kNoOp;
    for (const std::uint32_t op : culprit.group) {
      if (!has_values_) {
        if (facts_.shows_alone(op) && facts_.reads_known(op)) return op;
        continue;
      }
      // Masks and distances are made of numbers in many ways, unless the golden run has nearly the same.
      if (has_data && !is_of_data(op)) continue;
      const std::vector<std::uint32_t>&inputs = target_.ops[op].inputs, &outputs = target_.ops[op].outputs;
      // Indices, masks and counts are often made in another way.
      const bool makes_indices = std::ranges::all_of(outputs, [&](std::uint32_t output) {
        return facts_.is_plain(output) || target_.tensors[output].print.whole_numbers;
      });
      if (inputs.empty() || (makes_indices && !facts_.golden_makes_such(outputs.front()))) continue;
      const auto is_known = [&](std::uint32_t input) {
        const std::uint32_t maker = target_.tensors[input].op;
        // No operator made the data that the program reads in a layout of its own.
        const bool is_from_outside = maker == kNoOp && !judgement_.is_weight[input];
        return facts_.is_plain(input) || target_.tensors[input].print.whole_numbers || facts_.is_good(input) ||
               facts_.is_excused(maker) || is_from_outside || facts_.is_own_table(input) ||
               (maker != kNoOp && !is_of_data(maker));
      };
      if (!std::ranges::all_of(inputs, is_known)) continue;
      if (!facts_.places_in_own_layout(op)) return op;
      if (placed == kNoOp) placed = op;
    }
    return placed != kNoOp ? placed : culprit.op;
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
    return !facts_.is_good(tensor) && std::ranges::all_of(target_.tensors[tensor].readers, [&](std::uint32_t reader) {
      return !target_.is_of_forward(reader);
    });
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const RegionFacts facts_;
  const Region& region_;  // of the target
  const DataApart data_;
  const bool has_values_;
};

}  // namespace

Culprit op_to_blame(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  return Finder(target, golden, judgement).find();
}

}  // namespace sonde
