#include "ask/relations/order_of_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ask/relations/data_apart.h"
#include "ask/relations/element_order.h"
#include "ask/relations/standings.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

using Parts = std::vector<RoundedNumbers>;

Parts golden_parts(const Pool& golden, std::uint32_t op) {
  Parts parts;
  for (const std::uint32_t input : golden.ops[op].inputs) parts.push_back(rounded_numbers(golden.tensors[input].print));
  return parts;
}

// The golden tensors that the operator reads; empty: one of its inputs is none.
Parts parts_of(const Pool& target, const Pool& golden, const RelationJudgement& judgement, std::uint32_t op) {
  Parts parts;
  for (const std::uint32_t input : target.ops[op].inputs) {
    if (!is_surely_golden(judgement, input)) return {};
    parts.push_back(rounded_numbers(golden.tensors[judgement.relations[input].golden()].print));
  }
  return parts;
}

// The operator that joined the parts of the tensor, or of what it is a view of; kNoOp: none did.
std::uint32_t joiner_of(const Pool& pool, std::uint32_t tensor) {
  while (true) {
    const std::uint32_t maker = pool.tensors[tensor].op;
    if (maker == kNoOp) return kNoOp;
    if (pool.ops[maker].inputs.size() > 1 && puts_in_order(pool, maker)) return maker;
    if (!moves_or_casts(pool.op(maker).kind) || chooses(pool, maker)) return kNoOp;
    tensor = pool.ops[maker].inputs[0];
  }
}

}  // namespace

std::optional<Culprit> joined_otherwise(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                        std::uint32_t tensor) {
  const std::uint32_t joiner = joiner_of(target, tensor);
  if (joiner == kNoOp) return std::nullopt;
  const Parts mine = parts_of(target, golden, judgement, joiner);
  if (mine.empty()) return std::nullopt;
  std::optional<std::uint32_t> other;
  for (std::uint32_t op = 0; op < golden.ops.size(); ++op) {
    if (golden.ops[op].inputs.size() != mine.size() || !puts_in_order(golden, op)) continue;
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
