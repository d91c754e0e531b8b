#include "ask/relations/roots_of_weights.h"

#include "read/operators/op_family.h"

namespace sonde {
namespace {

// By statistics: its output has those of its input, as a view of another kind has.
bool have_same_numbers(const Pool& pool, const PoolOp& op) {
  if (op.outputs.size() != 1) return false;
  const TensorPrint &a = pool.tensors[op.inputs[0]].print, &b = pool.tensors[op.outputs[0]].print;
  return a.count == b.count && a.whole.norm == b.whole.norm && a.whole.sum == b.whole.sum && a.min == b.min &&
         a.max == b.max;
}

}  // namespace

std::vector<std::uint32_t> roots_of(const Pool& pool, const std::vector<char>& is_weight) {
  std::vector<std::uint32_t> roots(pool.tensors.size(), kNoOp);
  for (std::uint32_t i = 0; i < pool.tensors.size(); ++i) {
    if (is_weight.empty() ? pool.tensors[i].is_weight() : is_weight[i] != 0) roots[i] = i;
  }
  const bool has_values = pool.has_values();
  for (std::uint32_t i = 0; i < pool.ops.size(); ++i) {
    const PoolOp& op = pool.ops[i];
    if (op.inputs.size() != 1) continue;
    if (!moves_or_casts(pool.op(i).kind) && (has_values || !have_same_numbers(pool, op))) continue;
    for (const std::uint32_t output : op.outputs) roots[output] = roots[op.inputs[0]];
  }
  return roots;
}

}  // namespace sonde
