#include "ask/relations/order_of_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ask/compare/compare_words.h"
#include "ask/relations/data_apart.h"
#include "ask/relations/element_order.h"
#include "ask/relations/standings.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

using Parts = std::vector<RoundedNumbers>;

// The tensors that the operator joins. One run may join all at once, the other one after the other: then those that the
// joined ones join.
std::vector<std::uint32_t> joined_by(const Pool& pool, std::uint32_t op, int depth = 0) {
  constexpr int kDeepest = 64;
  std::vector<std::uint32_t> all;
  for (const std::uint32_t input : pool.ops[op].inputs) {
    const std::uint32_t maker = pool.tensors[input].op;
    const bool is_joined = maker != kNoOp && depth < kDeepest && pool.ops[maker].inputs.size() > 1 &&
                           pool.catalog_op(maker).op_type == pool.catalog_op(op).op_type;
    const std::vector<std::uint32_t> parts =
        is_joined ? joined_by(pool, maker, depth + 1) : std::vector<std::uint32_t>{input};
    all.insert(all.end(), parts.begin(), parts.end());
  }
  return all;
}

Parts golden_parts(const Pool& golden, std::uint32_t op) {
  Parts parts;
  for (const std::uint32_t part : joined_by(golden, op)) parts.push_back(rounded_numbers(golden.tensors[part].print));
  return parts;
}

// The golden tensors that the operator joins; empty: one of its parts is none.
Parts parts_of(const Pool& target, const Pool& golden, const RelationJudgement& judgement, std::uint32_t op) {
  Parts parts;
  for (const std::uint32_t part : joined_by(target, op)) {
    if (!is_surely_golden(judgement, part)) return {};
    parts.push_back(rounded_numbers(golden.tensors[judgement.relations[part].golden()].print));
  }
  return parts;
}

}  // namespace

std::uint32_t joiner_of(const Pool& pool, std::uint32_t tensor) {
  while (true) {
    const std::uint32_t maker = pool.tensors[tensor].op;
    if (maker == kNoOp) return kNoOp;
    if (pool.ops[maker].inputs.size() > 1 && puts_in_order(pool, maker)) return maker;
    if (!moves_or_casts(pool.op(maker).kind) || chooses(pool, maker)) return kNoOp;
    tensor = pool.ops[maker].inputs[0];
  }
}

std::optional<Culprit> joined_otherwise(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                        std::uint32_t tensor) {
  const std::uint32_t joiner = joiner_of(target, tensor);
  if (joiner == kNoOp) return std::nullopt;
  const Parts mine = parts_of(target, golden, judgement, joiner);
  if (mine.empty()) return std::nullopt;
  std::optional<std::uint32_t> other;
  for (std::uint32_t op = 0; op < golden.ops.size(); ++op) {
    if (golden.ops[op].inputs.size() < 2 || !puts_in_order(golden, op)) continue;
    const Parts theirs = golden_parts(golden, op);
    if (theirs == mine) return std::nullopt;
    if (!other && std::ranges::is_permutation(theirs, mine)) other = op;
  }
  if (!other || golden.ops[*other].outputs.empty()) return std::nullopt;
  return Culprit{.op = joiner,
                 .golden = golden.ops[*other].outputs[0],
                 .what = fmt::format("joins what golden {} {} joins, in another order",
                                     golden.catalog_op(*other).op_type, place_text(golden.catalog_op(*other)))};
}

}  // namespace sonde
