#include "ask/relations/golden_in_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ask/compare/compare_words.h"
#include "ask/relations/following.h"
#include "ask/relations/recomputed.h"
#include "ask/relations/standings.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::size_t kMostAxesTurned = 4;
constexpr std::size_t kMostOpsReplaced = 120;
constexpr std::size_t kMostGoldenTried = 64;

std::vector<std::int64_t> without_ones(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> squeezed = shape;
  std::erase(squeezed, 1);
  return squeezed;
}

// The orders of axes in which a golden tensor has the shape of a result. Its own order comes first, also where the shape
// is another one with as many elements.
std::vector<Dense> laid_out_like(const Dense& golden, const Dense& result) {
  const Dense own{without_ones(golden.shape), golden.values};
  const std::vector<std::int64_t> wanted = without_ones(result.shape);
  std::vector<Dense> all{{result.shape, golden.values}};
  if (own.shape.size() < 2 || own.shape.size() > kMostAxesTurned || own.shape.size() != wanted.size()) return all;
  std::vector<std::size_t> order(own.shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  while (std::ranges::next_permutation(order).found) {
    const auto fits = [&](std::size_t i) { return own.shape[order[i]] == wanted[i]; };
    bool is_like = true;
    for (std::size_t i = 0; i < order.size(); ++i) is_like = is_like && fits(i);
    if (is_like) all.push_back({result.shape, with_axes(own, order).values});
  }
  return all;
}

class InPlace {
 public:
  InPlace(const Pool& target, const Pool& golden, const RelationJudgement& judgement, const Region& region)
      : target_(target),
        golden_(golden),
        judgement_(judgement),
        region_(region),
        known_(target),
        golden_known_(golden),
        following_(target, golden, judgement, region, known_, golden_known_) {
    for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
      const PoolTensor& one = golden.tensors[i];
      if (one.print.count > 1 && !one.is_weight() && is_of_forward_run(golden, one.op))
        of_size_[one.print.count].push_back(i);
    }
    // Those that correspond to nothing are wanted first.
    for (auto& [count, tensors] : of_size_) {
      std::stable_partition(tensors.begin(), tensors.end(),
                            [&](std::uint32_t tensor) { return !judgement.met[tensor]; });
    }
  }

  std::optional<GoldenInPlace> find() {
    for (const std::uint32_t op : ops_to_look_at()) {
      for (const std::uint32_t output : target_.ops[op].outputs) {
        if (std::optional<GoldenInPlace> found = replaced(op, output)) return found;
      }
      if (following_.is_tired()) break;
    }
    return std::nullopt;
  }

 private:
  static bool is_of_forward_run(const Pool& pool, std::uint32_t op) { return op == kNoOp || pool.is_of_forward(op); }

  // The region, and what makes numbers or moves elements for it: they may be wrong, although what they give is golden in
  // another place or order.
  std::vector<std::uint32_t> ops_to_look_at() const {
    std::vector<std::uint32_t> ops;
    for (const std::uint32_t op : region_.ops) {
      if (ops.size() < kMostOpsReplaced && target_.is_of_forward(op)) ops.push_back(op);
    }
    std::set<std::uint32_t> known(ops.begin(), ops.end());
    for (std::size_t i = 0; i < ops.size() && ops.size() < 2 * kMostOpsReplaced; ++i) {
      for (const std::uint32_t input : target_.ops[ops[i]].inputs) {
        const std::uint32_t maker = target_.tensors[input].op;
        if (maker == kNoOp || known.contains(maker) || !target_.is_of_forward(maker)) continue;
        const bool is_plain = !target_.tensors[input].has_fractions() || target_.tensors[input].print.whole_numbers;
        if (!is_plain && !moves_or_casts(target_.op(maker).kind)) continue;
        known.insert(maker);
        ops.push_back(maker);
      }
    }
    std::ranges::sort(ops);
    return ops;
  }

  std::optional<GoldenInPlace> replaced(std::uint32_t op, std::uint32_t output) {
    const PoolTensor& own = target_.tensors[output];
    const Dense* result = known_.recorded(output);
    const auto candidates = of_size_.find(own.print.count);
    // Equal elements are often changed by what reads them, as those of a mask.
    if (result == nullptr || candidates == of_size_.end() || own.print.is_constant()) return std::nullopt;
    std::set<RoundedNumbers> tried;  // views and copies are one
    std::size_t count = 0;
    for (const std::uint32_t other : candidates->second) {
      const PoolTensor& theirs = golden_.tensors[other];
      if (own.has_fractions() != theirs.has_fractions() || ++count > kMostGoldenTried) continue;
      if (!tried.insert(rounded_numbers(theirs.print)).second) continue;
      const Dense* values = golden_known_.recorded(other);
      if (values == nullptr) continue;
      for (const Dense& laid_out : laid_out_like(*values, *result)) {
        if (is_nearly(laid_out, *result)) continue;
        const std::optional<Followed> followed = following_.from_golden(op, output, laid_out);
        if (!followed) continue;
        return GoldenInPlace{.op = op,
                             .tensor = output,
                             .golden = other,
                             .last = followed->last,
                             .last_golden = followed->golden,
                             .before = before(op),
                             .reads_golden = reads_golden(op, other)};
      }
    }
    return std::nullopt;
  }

  // Up to tensors that correspond, and are not only moved.
  std::vector<std::uint32_t> before(std::uint32_t op) const {
    std::vector<std::uint32_t> ops{op};
    for (std::size_t i = 0; i < ops.size() && ops.size() < kMostOpsReplaced; ++i) {
      for (const std::uint32_t input : target_.ops[ops[i]].inputs) {
        const std::uint32_t maker = target_.tensors[input].op;
        if (maker == kNoOp || std::ranges::find(ops, maker) != ops.end()) continue;
        const bool is_open = is_bad(judgement_.standings[input]) || moves_or_casts(target_.op(maker).kind) ||
                             !target_.tensors[input].has_fractions();
        if (is_open) ops.push_back(maker);
      }
    }
    std::ranges::sort(ops);
    return ops;
  }

  // All that the operator reads is what the golden run computes this tensor of.
  bool reads_golden(std::uint32_t op, std::uint32_t golden) const {
    const std::set<RoundedNumbers> theirs = read_for(golden);
    return std::ranges::all_of(target_.ops[op].inputs, [&](std::uint32_t input) {
      if (is_bad(judgement_.standings[input])) return false;
      const Relation& relation = judgement_.relations[input];
      const bool is_in_order = relation.kind == RelationKind::same || relation.kind == RelationKind::constant;
      return is_in_order && std::ranges::any_of(relation.parts, [&](const RelationPart& part) {
               return theirs.contains(rounded_numbers(golden_.tensors[part.golden].print));
             });
    });
  }

  // Golden tensors that correspond, of which this one is computed.
  std::set<RoundedNumbers> read_for(std::uint32_t golden) const {
    constexpr std::size_t kMost = 64;
    std::set<RoundedNumbers> numbers;
    std::vector<std::uint32_t> waiting{golden};
    std::set<std::uint32_t> seen;
    for (std::size_t i = 0; i < waiting.size() && i < kMost; ++i) {
      const std::uint32_t maker = golden_.tensors[waiting[i]].op;
      if (maker == kNoOp) continue;
      for (const std::uint32_t input : golden_.ops[maker].inputs) {
        if (!seen.insert(input).second) continue;
        numbers.insert(rounded_numbers(golden_.tensors[input].print));
        const std::uint32_t before = golden_.tensors[input].op;
        const bool goes_on = !judgement_.met[input] || (before != kNoOp && moves_or_casts(golden_.op(before).kind));
        if (goes_on) waiting.push_back(input);
      }
    }
    return numbers;
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const Region& region_;
  Recomputed known_, golden_known_;
  Following following_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> of_size_;  // golden tensors of the forward pass, by elements
};

}  // namespace

std::optional<GoldenInPlace> golden_in_place(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                             const Region& region) {
  return InPlace(target, golden, judgement, region).find();
}

std::string text_of(const GoldenInPlace& found, const Pool& target, const Pool& golden) {
  const CatalogOp &last = target.catalog_op(found.last),
                  &other = golden.catalog_op(golden.tensors[found.last_golden].op);
  return fmt::format(
      "reads what the golden run reads; with golden {} in the place of its result, that of {} {} is golden {} {}",
      golden.name_of(found.golden), last.op_type, place_text(last), other.op_type, place_text(other));
}

bool follows_from(const Pool& pool, std::uint32_t first, std::uint32_t later) {
  std::vector<char> follows(pool.ops.size());
  follows[first] = 1;
  for (std::uint32_t op = first + 1; op <= later; ++op) {
    follows[op] = std::ranges::any_of(pool.ops[op].inputs, [&](std::uint32_t input) {
      const std::uint32_t maker = pool.tensors[input].op;
      return maker != kNoOp && follows[maker] != 0;
    });
  }
  return first < later && follows[later] != 0;
}

}  // namespace sonde
