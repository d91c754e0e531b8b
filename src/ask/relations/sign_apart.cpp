#include "ask/relations/sign_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sonde {
namespace {

// A golden result that the target lacks, with this sum and norm.
bool is_missed(const Pool& golden, const RelationJudgement& judgement, std::uint64_t count, double sum, double norm) {
  constexpr double kTolerance = 1e-5;
  const double sum_slack = kTolerance * norm * std::sqrt(static_cast<double>(count));
  return std::ranges::any_of(judgement.golden.ops, [&](std::uint32_t op) {
    return std::ranges::any_of(golden.ops[op].outputs, [&](std::uint32_t output) {
      const TensorPrint& other = golden.tensors[output].print;
      return !judgement.met[output] && other.count == count && !other.proves_nothing() &&
             std::abs(other.whole.sum - sum) <= sum_slack && std::abs(other.whole.norm - norm) <= kTolerance * norm;
    });
  });
}

// The golden run has its negative: the sign was wrong before.
bool has_negative(const Pool& golden, const TensorPrint& own) {
  constexpr double kTolerance = 1e-4;
  const double slack = kTolerance * own.whole.norm;
  return std::ranges::any_of(golden.tensors, [&](const PoolTensor& tensor) {
    const TensorPrint& other = tensor.print;
    return other.count == own.count && std::abs(other.whole.norm - own.whole.norm) <= slack &&
           std::abs(other.min + own.max) <= slack && std::abs(other.max + own.min) <= slack;
  });
}

}  // namespace

std::optional<NumberApart> sign_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  constexpr int kMostLooks = 400;  // each compares all golden results
  int looks = 0;
  for (const std::uint32_t op : judgement.target.ops) {
    const PoolOp& own = target.ops[op];
    const bool adds = target.is_type(op, "add");
    if ((!adds && !target.is_type(op, "sub")) || own.inputs.size() != 2 || own.outputs.size() != 1) continue;
    if (judgement.standings[own.outputs[0]] != Standing::alone) continue;
    if (++looks > kMostLooks) break;
    const TensorPrint &a = target.tensors[own.inputs[0]].print, &b = target.tensors[own.inputs[1]].print,
                      &result = target.tensors[own.outputs[0]].print;
    if (a.count != result.count || b.count != result.count || result.proves_nothing()) continue;
    const double sign = adds ? -1 : 1;
    const double squares =
        2 * (a.whole.norm * a.whole.norm + b.whole.norm * b.whole.norm) - result.whole.norm * result.whole.norm;
    if (!(squares > 0) || has_negative(golden, a) || has_negative(golden, b)) continue;
    if (!is_missed(golden, judgement, result.count, a.whole.sum + sign * b.whole.sum, std::sqrt(squares))) continue;
    return NumberApart{
        op, fmt::format("{} what the golden run {}", adds ? "adds" : "subtracts", adds ? "subtracts" : "adds")};
  }
  return std::nullopt;
}

}  // namespace sonde
