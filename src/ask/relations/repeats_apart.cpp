#include "ask/relations/repeats_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ask/compare/compare_words.h"
#include "ask/relations/standings.h"

namespace sonde {
namespace {

bool repeats_in_turn(const Pool& pool, std::uint32_t op) {
  if (!pool.is_type(op, "repeat") && !pool.is_type(op, "tile")) return false;
  if (pool.ops[op].inputs.empty() || pool.ops[op].outputs.empty()) return false;
  const std::vector<std::int64_t> from = pool.tensors[pool.ops[op].inputs[0]].whole_shape(),
                                  to = pool.tensors[pool.ops[op].outputs[0]].whole_shape();
  for (std::size_t i = 1; i <= std::min(from.size(), to.size()); ++i) {
    const std::int64_t before = from[from.size() - i], behind = to[to.size() - i];
    if (before > 1 && behind > before) return true;  // of one element there is one order
  }
  return false;
}

bool repeats_beside(const Pool& pool, std::uint32_t op) {
  for (const std::string_view type :
       {"repeatinterleave", "upsamplenearest1d", "upsamplenearest2d", "upsamplenearest3d", "interpolate"}) {
    if (pool.is_type(op, type)) return true;
  }
  return false;
}

}  // namespace

std::optional<NumberApart> repeats_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                         std::uint32_t last) {
  for (std::uint32_t op = 0; op <= last; ++op) {
    if (!repeats_in_turn(target, op) || !is_surely_golden(judgement, target.ops[op].outputs[0])) continue;
    const std::uint32_t other = golden.tensors[judgement.relations[target.ops[op].outputs[0]].golden()].op;
    if (other == kNoOp || !repeats_beside(golden, other)) continue;
    const CatalogOp& theirs = golden.catalog_op(other);
    return NumberApart{op, fmt::format("repeats its input in turn, and golden {}, {} each element beside itself",
                                       theirs.op_type, place_text(theirs))};
  }
  return std::nullopt;
}

}  // namespace sonde
