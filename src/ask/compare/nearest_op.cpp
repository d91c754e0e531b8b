// nearest_to() of match_ops.h.
#include <algorithm>

#include "ask/compare/match_ops.h"
#include "ask/compare/op_features.h"
#include "read/measure/tensor_difference.h"

namespace sonde {

Nearest nearest_to(const CompareSide& side, std::uint32_t op, const CompareSide& other) {
  const CompareOp& wanted = side.ops[op];
  const CatalogTensor* output = main_output(wanted);
  Nearest nearest;
  int most = 0;
  constexpr std::uint32_t kWindow = 2000;  // in the same part of the step
  const auto size = static_cast<std::uint32_t>(other.ops.size());
  const std::uint32_t begin = op > kWindow ? std::min(op - kWindow, size) : 0;
  for (std::uint32_t i = begin; i < std::min<std::uint32_t>(size, op + kWindow); ++i) {
    const CompareOp& found = other.ops[i];
    const CatalogTensor* theirs = main_output(found);
    const bool family = OpFamilies::same(*wanted.family, *found.family);
    const bool shape = output != nullptr && theirs != nullptr && output->has_shape && theirs->has_shape &&
                       squeezed(output->shape) == squeezed(theirs->shape);
    const int alike = 4 * family + 2 * shape + 3 * (wanted.op->op_name == found.op->op_name) +
                      (!wanted.scope.empty() && wanted.scope == found.scope);
    if (alike < 3 || alike <= most) continue;
    most = alike;
    nearest.op = i;
    if (!family) {
      nearest.why = "it is of another type";
    } else if (!shape) {
      nearest.why = "it gives another shape";
    } else {
      nearest.why = "it belongs to another op";
    }
  }
  if (nearest.op == kNoOp) nearest.why = "nothing of its type or shape is there";
  return nearest;
}

}  // namespace sonde
