#include "ask/relations/ends_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ask/compare/compare_words.h"
#include "ask/relations/regions.h"
#include "ask/relations/standings.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

bool reads_parameter(const Pool& pool, std::uint32_t op) {
  return std::ranges::any_of(pool.ops[op].inputs, [&](std::uint32_t input) { return pool.tensors[input].is_weight(); });
}

// The network's own line multiplies: not that of a program around it.
bool is_scaled_in_network(const Pool& pool, std::uint32_t op) {
  return number_multiplied_by(pool.op(op)) && pool.catalog_op(op).op_name.find("/network-") != std::string_view::npos;
}

// A step of the network, and none that follows it, such as a loss, a choice of tokens or their probabilities.
bool is_of_network(const Pool& pool, std::uint32_t op) {
  const bool is_softmax = bare_type(pool.catalog_op(op).op_type).ends_with("softmax");
  return reads_parameter(pool, op) || is_scaled_in_network(pool, op) ||
         (pool.op(op).kind == OpKind::normalization && !is_softmax);
}

// A weight that only one side has belongs to a layer that only this side has.
bool reads_golden_weight(const Pool& target, const RelationJudgement& judgement, std::uint32_t op) {
  return std::ranges::any_of(target.ops[op].inputs, [&](std::uint32_t input) {
    return target.tensors[input].is_weight() && judgement.relations[input].is_whole() &&
           !is_bad(judgement.standings[input]);
  });
}

}  // namespace

std::optional<Culprit> early_end(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  std::uint32_t last = kNoOp;  // tensor
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const bool is_later = last == kNoOp || target.tensors[i].op >= target.tensors[last].op;
    if (is_end(target, i, false, true) && is_later) last = i;
  }
  if (last == kNoOp || judgement.relations[last].kind != RelationKind::same || judgement.relations[last].weak)
    return std::nullopt;
  const PoolTensor& like = golden.tensors[judgement.relations[last].golden()];
  for (const std::uint32_t op : like.readers) {
    if (!is_of_network(golden, op) || golden.ops[op].outputs.empty()) continue;
    const std::uint32_t result = golden.ops[op].outputs[0];
    if (judgement.met[result] || golden.tensors[result].print.count != like.print.count) continue;
    if (!is_end(golden, result, false, true)) continue;
    const CatalogOp& next = golden.catalog_op(op);
    return Culprit{.op = target.tensors[last].op,
                   .uncertain = true,
                   .what = fmt::format("gives the last result, and the golden run goes on from it: {} {}, {}",
                                       next.op_type, next.op_name, place_text(next))};
  }
  return std::nullopt;
}

std::optional<Culprit> late_end(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  for (auto op = static_cast<std::uint32_t>(target.ops.size()); op-- > 0;) {
    const PoolOp& own = target.ops[op];
    if (own.outputs.size() != 1 || judgement.relations[own.outputs[0]]) continue;
    if (!is_end(target, own.outputs[0], false, true)) continue;
    if (!reads_golden_weight(target, judgement, op) && !is_scaled_in_network(target, op)) continue;
    for (const std::uint32_t input : own.inputs) {
      const bool is_result = target.tensors[input].op != kNoOp && is_surely_golden(judgement, input) &&
                             target.tensors[input].print.count == target.tensors[own.outputs[0]].print.count;
      if (!is_result || !is_end(golden, judgement.relations[input].golden(), false, true)) continue;
      const CatalogOp& last = golden.catalog_op(golden.tensors[judgement.relations[input].golden()].op);
      return Culprit{.op = op,
                     .uncertain = true,
                     .what = fmt::format("goes on from the last golden result, that of {} {}, {}", last.op_type,
                                         last.op_name, place_text(last))};
    }
  }
  return std::nullopt;
}

}  // namespace sonde
