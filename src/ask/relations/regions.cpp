#include "ask/relations/regions.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ask/relations/roots_of_weights.h"
#include "ask/relations/standings.h"
#include "read/operators/op_family.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

Phase phase_at(const Pool& pool, std::uint32_t op) { return phase_of(pool.catalog_op(op)); }

}  // namespace

std::vector<std::uint32_t> before_in(const Pool& pool, const Region& region, std::uint32_t op) {
  std::vector<std::uint32_t> group{op};
  std::vector<char> seen(pool.ops.size());
  seen[op] = 1;
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (const std::uint32_t input : pool.ops[group[i]].inputs) {
      const std::uint32_t from = pool.tensors[input].op;
      if (from == kNoOp || !region.has[from] || seen[from]) continue;
      seen[from] = 1;
      group.push_back(from);
    }
  }
  std::ranges::sort(group);
  return group;
}

bool is_sum(const Pool& pool, std::uint32_t op) { return pool.is_type(op, "add"); }

// Results: nothing but an optimizer or the program reads them.
bool is_end(const Pool& pool, std::uint32_t tensor, bool has_gradients, bool forward_only) {
  const PoolTensor& own = pool.tensors[tensor];
  if (own.op == kNoOp || own.computed != nullptr || !own.has_fractions()) return false;
  // With gradients a loss is not the only result, and that of a part of the batch has no counterpart.
  if (own.print.count == 0 || (own.print.count == 1 && has_gradients)) return false;
  if (own.print.is_constant() && own.print.count > 1) return false;
  const auto is_after = [&](std::uint32_t op) {
    const Phase phase = phase_at(pool, op);
    const bool gives_number = pool.ops[op].outputs.empty();  // item: the program prints it
    return gives_number || phase == Phase::optimizer || (forward_only && phase == Phase::backward);
  };
  return !is_after(own.op) && std::ranges::all_of(own.readers, is_after);
}

namespace {

bool has_gradients(const Pool& pool) {
  for (std::uint32_t i = 0; i < pool.ops.size(); ++i) {
    if (phase_at(pool, i) == Phase::backward) return true;
  }
  return false;
}

// The tensors of a side that correspond to nothing, or with an error, and how its regions are found.
struct BadTensors {
  const Pool& pool;
  std::vector<char> are_bad;               // by tensor
  std::vector<char> are_good;              // by tensor: it corresponds, and not by chance
  std::set<std::uint64_t> sizes = {};      // of results that count, in elements; empty: all do
  std::vector<std::uint64_t> counts = {};  // by tensor: its elements with those of its likes in other steps; empty: own
  // By tensor: no result, but with an error that nothing explains, although what follows from it hides it.
  std::vector<char> are_starts = {};
  // As if there were no backward pass, whose operators read values from inside of others.
  bool forward_only = false;
  bool has_backward = has_gradients(pool);
  bool has_values = true;               // of both sides: sums that agree confirm nothing
  std::set<std::uint32_t> losses = {};  // where the other run has as many

  bool has_size(std::uint32_t tensor) const {
    return sizes.empty() || sizes.contains(pool.tensors[tensor].print.count) ||
           (!counts.empty() && sizes.contains(counts[tensor]));
  }

  bool is_bad_end(std::uint32_t tensor) const {
    return are_bad[tensor] != 0 &&
           (losses.contains(tensor) || is_end(pool, tensor, has_backward && !forward_only, forward_only));
  }
};

// The forward pass does not go on from it: a backward pass reads it, or the program prints it, also as a copy. `copies`: of
// it so far.
bool ends_forward(const Pool& pool, std::uint32_t op, std::size_t copies = 0) {
  constexpr std::size_t kMostCopies = 8;
  const std::vector<std::uint32_t>& outputs = pool.ops[op].outputs;
  if (!pool.is_of_forward(op) || outputs.empty()) return true;
  const bool only_moves = copies < kMostCopies && moves_or_casts(pool.op(op).kind);
  return only_moves && std::ranges::all_of(outputs, [&](std::uint32_t output) {
           return std::ranges::all_of(pool.tensors[output].readers,
                                      [&](auto next) { return ends_forward(pool, next, copies + 1); });
         });
}

}  // namespace

std::vector<std::uint32_t> losses_of(const Pool& pool) {
  std::vector<std::uint32_t> numbers;
  std::size_t begun = 0;  // backward passes
  for (std::uint32_t i = 0; i < pool.tensors.size(); ++i) {
    const PoolTensor& own = pool.tensors[i];
    if (own.op == kNoOp || own.print.count != 1 || own.computed != nullptr || !own.has_fractions()) continue;
    if (pool.is_type(own.op, "oneslike")) ++begun;
    const auto is_last = [&](std::uint32_t reader) { return ends_forward(pool, reader); };
    if (!ends_forward(pool, own.op) && std::ranges::all_of(own.readers, is_last)) numbers.push_back(i);
  }
  const bool is_only_one = numbers.size() == 1 && pool.steps.size() == 1;
  return is_only_one || numbers.size() == begun ? numbers : std::vector<std::uint32_t>{};
}

namespace {

// Losses of both sides, if they have as many: each belongs to the golden one of its place.
void add_losses(BadTensors& bad, BadTensors& golden_bad) {
  const std::vector<std::uint32_t> mine = losses_of(bad.pool), theirs = losses_of(golden_bad.pool);
  if (mine.size() != theirs.size()) return;
  bad.losses = {mine.begin(), mine.end()};
  golden_bad.losses = {theirs.begin(), theirs.end()};
}

std::set<std::uint64_t> sizes_of_ends(const BadTensors& bad) {
  std::set<std::uint64_t> sizes;
  for (std::uint32_t i = 0; i < bad.pool.tensors.size(); ++i) {
    if (!bad.is_bad_end(i)) continue;
    sizes.insert(bad.pool.tensors[i].print.count);
    if (!bad.counts.empty()) sizes.insert(bad.counts[i]);
  }
  return sizes;
}

bool has_good_end(const BadTensors& bad, const RelationJudgement& judgement) {
  for (std::uint32_t i = 0; i < bad.pool.tensors.size(); ++i) {
    if (judgement.standings[i] != Standing::good || judgement.relations[i].weak) continue;
    if (is_end(bad.pool, i, bad.has_backward && !bad.forward_only, bad.forward_only)) return true;
  }
  return false;
}

// By operator of the forward pass: it gives what corresponds to nothing, and all that the forward pass computes of it
// corresponds again. Then only a backward pass that differs for another reason reads it.
std::vector<char> confirmed_by_forward(const BadTensors& bad) {
  const Pool& pool = bad.pool;
  std::vector<char> confirmed(pool.ops.size());
  const auto is_right = [&](std::uint32_t op) {
    const std::vector<std::uint32_t>& outputs = pool.ops[op].outputs;
    const auto is_good = [&](std::uint32_t output) { return bad.are_good[output] != 0 && !bad.are_bad[output]; };
    return confirmed[op] != 0 || (!outputs.empty() && std::ranges::all_of(outputs, is_good));
  };
  for (auto op = static_cast<std::uint32_t>(pool.ops.size()); op-- > 0;) {
    if (!pool.is_of_forward(op) || pool.ops[op].outputs.empty()) continue;
    confirmed[op] = std::ranges::all_of(pool.ops[op].outputs, [&](std::uint32_t output) {
      std::size_t readers = 0;
      const bool are_right = std::ranges::all_of(pool.tensors[output].readers, [&](std::uint32_t reader) {
        if (!pool.is_of_forward(reader)) return true;
        ++readers;
        return is_right(reader);
      });
      return are_right && readers > 0 && (bad.are_starts.empty() || !bad.are_starts[output]);
    });
  }
  return confirmed;
}

// By operator: it follows from a gradient, as the update of a weight does that the program writes out, and all that reads
// the weight later.
std::vector<char> behind_gradients(const Pool& pool) {
  std::vector<char> behind(pool.ops.size());
  for (std::uint32_t op = 0; op < pool.ops.size(); ++op) {
    behind[op] = phase_at(pool, op) == Phase::backward || std::ranges::any_of(pool.ops[op].inputs, [&](auto input) {
                   const std::uint32_t maker = pool.tensors[input].op;
                   return maker != kNoOp && behind[maker] != 0;
                 });
  }
  return behind;
}

// In a training the first step with a bad result: its update makes the weights of all later ones differ. Of two that have
// the same steps.
std::uint32_t last_step_to_look_at(const BadTensors& bad, const BadTensors& golden_bad) {
  std::uint32_t last = std::numeric_limits<std::uint32_t>::max();
  if (!bad.has_backward || bad.pool.steps.size() != golden_bad.pool.steps.size()) return last;
  for (std::uint32_t i = 0; i < bad.pool.tensors.size(); ++i) {
    if (bad.has_size(i) && bad.is_bad_end(i)) last = std::min(last, bad.pool.tensors[i].step);
  }
  return last;
}

// The operators on paths of bad tensors to results that are bad. `last`: the last step with such results.
Region region_of(const BadTensors& bad, std::uint32_t last) {
  const Pool& pool = bad.pool;
  const std::vector<char> confirmed = bad.has_values ? confirmed_by_forward(bad) : std::vector<char>(pool.ops.size());
  const std::vector<char> behind = bad.forward_only ? behind_gradients(pool) : std::vector<char>(pool.ops.size());
  Region region;
  region.has.resize(pool.ops.size());
  std::vector<char> seen(pool.ops.size());
  std::vector<std::uint32_t> waiting;
  const auto take = [&](std::uint32_t tensor) {
    const std::uint32_t op = pool.tensors[tensor].op;
    if (op == kNoOp || phase_at(pool, op) == Phase::optimizer || confirmed[op] || behind[op]) return;
    // Statistics with infinities are none: what made them may be bad.
    const bool is_unknown = pool.tensors[tensor].print.count == 0 && pool.tensors[tensor].of.tensor->file.empty();
    if (bad.are_bad[tensor] || is_unknown) region.has[op] = 1;
    if ((!bad.are_bad[tensor] && !is_unknown) || seen[op]) return;
    seen[op] = 1;
    waiting.push_back(op);
  };
  for (std::uint32_t i = 0; i < pool.tensors.size(); ++i) {
    if (pool.tensors[i].step > last) continue;
    if (bad.has_size(i) && bad.is_bad_end(i)) take(i);
    if (!bad.are_starts.empty() && bad.are_starts[i]) take(i);
  }
  while (!waiting.empty()) {
    const std::uint32_t op = waiting.back();
    waiting.pop_back();
    for (const std::uint32_t input : pool.ops[op].inputs) take(input);
  }
  for (std::uint32_t i = 0; i < pool.ops.size(); ++i) {
    if (region.has[i]) region.ops.push_back(i);
  }
  return region;
}

// A part or view of what corresponds, which nothing reads, and which is not the last result: its shape or type was all
// that was wanted, as of `zeros_like(x[:1])`.
bool is_left_over(const Pool& pool, const RelationJudgement& judgement, std::uint32_t tensor, std::uint32_t last) {
  const PoolTensor& own = pool.tensors[tensor];
  if (own.op == kNoOp || own.op == last || !own.readers.empty() || !moves_or_casts(pool.op(own.op).kind)) return false;
  return std::ranges::all_of(pool.ops[own.op].inputs, [&](std::uint32_t input) {
    return judgement.standings[input] == Standing::good && !judgement.relations[input].weak;
  });
}

// The product with a golden weight corresponds to nothing, nor does the golden product with it, which has as many
// elements: they differ, although what is added to them may hide it.
void add_products_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                        std::vector<char>& starts, std::vector<char>& golden_starts) {
  const std::vector<std::uint32_t> roots = roots_of(target, judgement.is_weight), golden_roots = roots_of(golden, {});
  std::map<std::uint32_t, std::vector<std::uint32_t>> products;  // by golden weight
  for (std::uint32_t op = 0; op < golden.ops.size(); ++op) {
    const bool is_free = golden.op(op).kind == OpKind::contraction && golden.ops[op].outputs.size() == 1 &&
                         !judgement.met[golden.ops[op].outputs[0]] && phase_at(golden, op) == Phase::forward;
    if (!is_free) continue;
    for (const std::uint32_t input : golden.ops[op].inputs) {
      if (golden_roots[input] != kNoOp) products[golden_roots[input]].push_back(golden.ops[op].outputs[0]);
    }
  }
  for (std::uint32_t op = 0; op < target.ops.size(); ++op) {
    if (target.op(op).kind != OpKind::contraction || target.ops[op].outputs.size() != 1) continue;
    const std::uint32_t output = target.ops[op].outputs[0];
    if (judgement.standings[output] != Standing::alone || phase_at(target, op) != Phase::forward) continue;
    for (const std::uint32_t input : target.ops[op].inputs) {
      const std::uint32_t root = roots[input];
      if (root == kNoOp || judgement.relations[root].kind != RelationKind::same || judgement.relations[root].weak)
        continue;
      for (const std::uint32_t other : products[judgement.relations[root].golden()]) {
        if (golden.tensors[other].print.count != target.tensors[output].print.count) continue;
        starts[output] = golden_starts[other] = 1;
      }
    }
  }
}

// By statistics: a result is nearly a golden one.
bool is_near_golden(const Pool& target, const RelationJudgement& judgement, std::uint32_t tensor) {
  const Relation& relation = judgement.relations[tensor];
  const bool is_all = relation.is_whole() || (relation.kind == RelationKind::cut && relation.is_of_sums);
  return judgement.standings[tensor] == Standing::beyond && target.tensors[tensor].op != kNoOp && is_all &&
         !relation.weak;
}

// Of an operator of the same kind. By chance one tensor may be like another one.
bool is_near_its_like(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                      std::uint32_t tensor) {
  if (!is_near_golden(target, judgement, tensor)) return false;
  const std::uint32_t op = target.tensors[tensor].op, other = golden.tensors[judgement.relations[tensor].golden()].op;
  if (other == kNoOp || !target.is_of_forward(op)) return false;
  const CompareOp &mine = target.op(op), &theirs = golden.op(other);
  const bool are_products = mine.kind == OpKind::contraction && theirs.kind == OpKind::contraction;
  return are_products || OpFamilies::same(*mine.family, *theirs.family);
}

// And so is what an operator computes of it, also of a view: an error that goes on, although a later norm may hide it.
bool is_shown_by_sums(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                      std::uint32_t tensor) {
  if (!is_near_its_like(target, golden, judgement, tensor)) return false;
  constexpr std::size_t kMost = 16;
  std::vector<std::uint32_t> waiting{tensor};
  for (std::size_t i = 0; i < waiting.size() && i < kMost; ++i) {
    for (const std::uint32_t reader : target.tensors[waiting[i]].readers) {
      for (const std::uint32_t output : target.ops[reader].outputs) {
        if (moves_or_casts(target.op(reader).kind)) {
          waiting.push_back(output);
        } else if (is_near_golden(target, judgement, output)) {
          return true;
        }
      }
    }
  }
  return false;
}

// Where no result differs. False: there are none.
bool add_starts_by_sums(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                        std::vector<char>& starts, std::vector<char>& golden_starts) {
  bool any = false;
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    if (!is_shown_by_sums(target, golden, judgement, i)) continue;
    any = true;
    starts[i] = 1;
    for (const RelationPart& part : judgement.relations[i].parts) golden_starts[part.golden] = 1;
  }
  return any;
}

// One side computes by operators of its own what the backward pass of the other one gives.
bool writes_out_gradients(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  if (has_gradients(target) == has_gradients(golden)) return false;
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const std::uint32_t op = target.tensors[i].op;
    if (op == kNoOp || !is_surely_golden(judgement, i)) continue;
    const std::uint32_t other = golden.tensors[judgement.relations[i].golden()].op;
    if (other == kNoOp || moves_or_casts(golden.op(other).kind)) continue;
    if ((phase_at(target, op) == Phase::backward) != (phase_at(golden, other) == Phase::backward)) return true;
  }
  return false;
}

// By tensor: it follows from a weight that an update made another one, and that was right before the first. What
// optimizers divide by its size makes whole steps of the rounding in a gradient that is nothing else, such as that of a bias
// of keys: no error, unless results show it.
std::vector<char> behind_updates(const Pool& target, const RelationJudgement& judgement) {
  std::set<std::string_view> right;
  std::vector<char> behind(target.tensors.size());
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const PoolTensor& own = target.tensors[i];
    if (!own.is_weight()) continue;
    const bool is_wrong = is_bad(judgement.standings[i]);
    if (own.step == 0 && !is_wrong) right.insert(own.of.tensor->parameter);
    behind[i] = own.step > 0 && is_wrong && right.contains(own.of.tensor->parameter);
  }
  for (const PoolOp& op : target.ops) {
    const bool follows = std::ranges::any_of(op.inputs, [&](std::uint32_t input) { return behind[input] != 0; });
    for (const std::uint32_t output : op.outputs) behind[output] = static_cast<char>(follows);
  }
  return behind;
}

std::uint32_t last_of_forward(const Pool& pool) {
  std::uint32_t last = kNoOp;
  for (std::uint32_t i = 0; i < pool.ops.size(); ++i) {
    if (pool.is_of_forward(i) && !pool.ops[i].outputs.empty()) last = i;
  }
  return last;
}

}  // namespace

void find_regions(const Pool& target, const Pool& golden, RelationJudgement& judgement) {
  std::vector<char> target_is_bad(target.tensors.size()), golden_is_bad(golden.tensors.size());
  std::vector<char> target_is_good(target.tensors.size());
  std::vector<char> starts(target.tensors.size()), golden_starts(golden.tensors.size());
  const std::vector<char> behind = behind_updates(target, judgement);
  const std::uint32_t last = last_of_forward(target);
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    target_is_bad[i] = is_bad(judgement.standings[i]) && !is_left_over(target, judgement, i, last);
    const Relation& relation = judgement.relations[i];
    target_is_good[i] = judgement.standings[i] == Standing::good && !relation.weak;
    if (judgement.standings[i] != Standing::beyond) continue;
    const bool is_shown = relation.difference.by == ComparedBy::values && !relation.weak;
    starts[i] = is_shown && !behind[i];
    for (const RelationPart& part : relation.parts) {
      golden_is_bad[part.golden] = 1;
      golden_starts[part.golden] |= starts[i];
    }
  }
  if (!target.has_values()) add_products_apart(target, golden, judgement, starts, golden_starts);
  for (std::size_t i = 0; i < golden_is_bad.size(); ++i) {
    if (!judgement.met[i] && golden.tensors[i].print.count > 0) golden_is_bad[i] = 1;
  }
  BadTensors bad{.pool = target,
                 .are_bad = std::move(target_is_bad),
                 .are_good = std::move(target_is_good),
                 .counts = judgement.counts_over_steps,
                 .are_starts = std::move(starts)};
  BadTensors golden_bad{.pool = golden,
                        .are_bad = std::move(golden_is_bad),
                        .are_good = judgement.met,
                        .are_starts = std::move(golden_starts)};
  add_losses(bad, golden_bad);
  const bool has_values = target.has_values() && golden.has_values();
  bad.has_values = golden_bad.has_values = has_values;
  const auto find = [&](bool forward_only) {
    bad.forward_only = golden_bad.forward_only = forward_only;
    if (!has_values) {
      // Statistics do not show cuts: only a result that the other side has in the same size differs from it. No result
      // has 0 elements.
      const std::set<std::uint64_t> mine = sizes_of_ends(bad), theirs = sizes_of_ends(golden_bad);
      bad.sizes = {0};
      std::ranges::set_intersection(mine, theirs, std::inserter(bad.sizes, bad.sizes.end()));
      golden_bad.sizes = bad.sizes;
      if (!forward_only) {
        judgement.has_results_left =
            std::ranges::any_of(mine, [&](std::uint64_t size) { return !theirs.contains(size); });
        judgement.nothing_compared = bad.sizes.size() == 1 && !mine.empty() && !has_good_end(bad, judgement);
      }
    }
    const std::uint32_t last_step = last_step_to_look_at(bad, golden_bad);
    return std::pair(region_of(bad, last_step), region_of(golden_bad, last_step));
  };
  std::tie(judgement.target, judgement.golden) = find(false);
  const auto is_nothing = [&] { return judgement.target.empty() || judgement.golden.empty(); };
  if (is_nothing() && !has_values &&
      add_starts_by_sums(target, golden, judgement, bad.are_starts, golden_bad.are_starts))
    std::tie(judgement.target, judgement.golden) = find(false);
  if (is_nothing()) return;
  if (writes_out_gradients(target, golden, judgement)) return;
  auto [forward, golden_forward] = find(true);
  if (forward.empty() || golden_forward.empty()) return;
  judgement.target = std::move(forward);
  judgement.golden = std::move(golden_forward);
}

}  // namespace sonde
