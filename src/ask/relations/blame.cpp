#include "ask/relations/blame.h"

#include <algorithm>
#include <map>

#include "ask/relations/intermediates.h"
#include "ask/relations/op_to_blame.h"
#include "ask/relations/search.h"
#include "ask/relations/standings.h"
#include "ask/relations/weights_apart.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

Phase phase_in(const Pool& pool, std::uint32_t op) { return phase_of(pool.catalog_op(op)); }

// Results: nothing but an optimizer or the program reads them.
bool is_end(const Pool& pool, std::uint32_t tensor, bool has_gradients, bool forward_only) {
  const PoolTensor& own = pool.tensors[tensor];
  if (own.op == kNoOp || own.computed != nullptr || !is_floating(own.of.tensor->dtype)) return false;
  // With gradients a loss is not the only result, and that of a part of the batch has no counterpart.
  if (own.print.count == 0 || (own.print.count == 1 && has_gradients)) return false;
  if (own.print.is_constant() && own.print.count > 1) return false;
  const auto is_after = [&](std::uint32_t op) {
    const Phase phase = phase_in(pool, op);
    const bool gives_number = pool.ops[op].outputs.empty();  // item: the program prints it
    return gives_number || phase == Phase::optimizer || (forward_only && phase == Phase::backward);
  };
  return !is_after(own.op) && std::ranges::all_of(own.readers, is_after);
}

bool has_gradients(const Pool& pool) {
  for (std::uint32_t i = 0; i < pool.ops.size(); ++i) {
    if (phase_in(pool, i) == Phase::backward) return true;
  }
  return false;
}

// The operators on paths of bad tensors to results that are bad.
// `forward_only`: as if there were no backward pass, whose operators read values from inside of others.
Region region_of(const Pool& pool, const std::vector<char>& is_bad, bool forward_only) {
  Region region;
  region.has.resize(pool.ops.size());
  std::vector<std::uint32_t> waiting;
  const bool gradients = !forward_only && has_gradients(pool);
  const auto take = [&](std::uint32_t tensor) {
    const std::uint32_t op = pool.tensors[tensor].op;
    if (!is_bad[tensor] || op == kNoOp || region.has[op] || phase_in(pool, op) == Phase::optimizer) return;
    region.has[op] = 1;
    waiting.push_back(op);
  };
  for (std::uint32_t i = 0; i < pool.tensors.size(); ++i) {
    if (is_bad[i] && is_end(pool, i, gradients, forward_only)) take(i);
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

void count_weights(const Pool& target, const Pool& golden, RelationJudgement& judgement) {
  std::map<std::vector<std::int64_t>, int> shapes;
  const auto sorted = [](std::vector<std::int64_t> shape) {
    std::ranges::sort(shape);
    return shape;
  };
  for (const PoolTensor& other : golden.tensors) {
    if (other.is_weight()) ++shapes[sorted(other.shape)];
  }
  std::size_t alike = 0;
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const PoolTensor& own = target.tensors[i];
    if (!own.is_weight() || own.step != 0 || own.print.proves_nothing()) continue;
    ++judgement.weights;
    judgement.related_weights += static_cast<bool>(judgement.relations[i]);
    int& left = shapes[sorted(own.shape)];
    if (left-- > 0) ++alike;
  }
  const bool few = 2 * judgement.related_weights < judgement.weights;
  judgement.weights_are_others = few && 2 * alike > judgement.weights;
  judgement.nothing_corresponds = few && !judgement.weights_are_others;
}

void find_regions(const Pool& target, const Pool& golden, RelationJudgement& judgement) {
  std::vector<char> target_is_bad(target.tensors.size()), golden_is_bad(golden.tensors.size());
  for (std::size_t i = 0; i < target_is_bad.size(); ++i) target_is_bad[i] = is_bad(judgement.standings[i]);
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    if (judgement.standings[i] != Standing::beyond) continue;
    for (const RelationPart& part : judgement.relations[i].parts) golden_is_bad[part.golden] = 1;
  }
  for (std::size_t i = 0; i < golden_is_bad.size(); ++i) {
    if (!judgement.met[i] && golden.tensors[i].print.count > 0) golden_is_bad[i] = 1;
  }
  judgement.target = region_of(target, target_is_bad, false);
  judgement.golden = region_of(golden, golden_is_bad, false);
  if (judgement.target.empty() || judgement.golden.empty()) return;
  Region forward = region_of(target, target_is_bad, true), golden_forward = region_of(golden, golden_is_bad, true);
  if (forward.empty() || golden_forward.empty()) return;
  judgement.target = std::move(forward);
  judgement.golden = std::move(golden_forward);
}

// Scores whose hidden elements have another large number.
Relation masked(const Pool& target, std::uint32_t tensor, const Pool& golden) {
  Relation found;
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& other = golden.tensors[i];
    if (other.computed == nullptr || other.print.count != target.tensors[tensor].print.count) continue;
    if (!same_but_for_mask(target, tensor, golden, i)) continue;
    found.kind = RelationKind::same;
    found.parts = {{.golden = i}};
    found.difference.by = ComparedBy::values;
    found.difference.dtype = found.difference.golden_dtype = target.tensors[tensor].of.tensor->dtype;
    break;
  }
  return found;
}

// The target may compute step by step the values inside of golden operators.
void look_again_inside(const Pool& target, Pool& golden, const Threads& threads, RelationJudgement& judgement) {
  if (!add_intermediates(golden, judgement.golden)) return;
  Search search(target, golden, threads);
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const std::uint32_t op = target.tensors[i].op;
    if (judgement.standings[i] != Standing::alone || op == kNoOp || !judgement.target.has[op]) continue;
    judgement.relations[i] = search.find(i);
    if (!judgement.relations[i]) judgement.relations[i] = masked(target, i, golden);
  }
  judgement.met.resize(golden.tensors.size());
  for (std::size_t i = 0; i < judgement.met.size(); ++i) judgement.met[i] |= search.met()[i];
  judge_standings(target, golden, judgement);
  find_regions(target, golden, judgement);
}

}  // namespace

RelationJudgement judge_relations(const Pool& target, Pool& golden, const Threads& threads) {
  RelationJudgement judgement;
  Search search(target, golden, threads);
  judgement.relations.resize(target.tensors.size());
  judgement.standings.resize(target.tensors.size(), Standing::unknown);
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) judgement.relations[i] = search.find(i);
  judgement.met = search.met();
  judge_standings(target, golden, judgement);
  judgement.is_weight.resize(target.tensors.size());
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const PoolTensor& own = target.tensors[i];
    const Relation& relation = judgement.relations[i];
    judgement.is_weight[i] =
        own.is_weight() || (own.op == kNoOp && relation && golden.tensors[relation.golden()].is_weight());
  }
  count_weights(target, golden, judgement);
  if (judgement.nothing_corresponds || judgement.weights_are_others) return judgement;

  find_regions(target, golden, judgement);
  // All results of one side are in the other: what else differs has no effect.
  if (judgement.target.empty() || judgement.golden.empty()) return judgement;
  look_again_inside(target, golden, threads, judgement);
  if (judgement.target.empty()) return judgement;
  Culprit op = op_to_blame(target, golden, judgement);
  judgement.culprits = weights_to_blame(target, golden, judgement);
  // A weight that is read later cannot be the cause.
  std::erase_if(judgement.culprits, [&](const Culprit& weight) { return weight.op > op.op; });
  judgement.culprits.push_back(std::move(op));
  return judgement;
}

}  // namespace sonde
