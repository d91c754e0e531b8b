#include "ask/relations/reductions_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ask/relations/data_apart.h"
#include "ask/relations/standings.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

// Each number is that of the other times `factor`.
bool is_times(const TensorPrint& own, const TensorPrint& other, double factor) {
  constexpr double kTolerance = 1e-5;
  const double slack = kTolerance * std::abs(factor) * other.whole.norm;
  return own.count == other.count && other.whole.norm > 0 &&
         std::abs(own.whole.norm - factor * other.whole.norm) <= slack &&
         std::abs(own.whole.sum - factor * other.whole.sum) <= slack * std::sqrt(static_cast<double>(own.count)) &&
         std::abs(own.min - factor * other.min) <= slack && std::abs(own.max - factor * other.max) <= slack;
}

bool has_missed(const Pool& golden, const RelationJudgement& judgement, const TensorPrint& own, double factor) {
  return std::ranges::any_of(judgement.golden.ops, [&](std::uint32_t op) {
    return std::ranges::any_of(golden.ops[op].outputs, [&](std::uint32_t output) {
      return !judgement.met[output] && is_times(own, golden.tensors[output].print, factor);
    });
  });
}

std::optional<NumberApart> sum_for_mean(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                        std::uint32_t op) {
  const bool is_sum = target.is_type(op, "sum");
  const PoolOp& own = target.ops[op];
  if ((!is_sum && !target.is_type(op, "mean")) || own.inputs.empty() || own.outputs.empty()) return std::nullopt;
  const TensorPrint &read = target.tensors[own.inputs[0]].print, &result = target.tensors[own.outputs[0]].print;
  if (result.count == 0 || read.count <= result.count || judgement.standings[own.outputs[0]] != Standing::alone)
    return std::nullopt;
  const double times = static_cast<double>(read.count) / static_cast<double>(result.count);
  if (!has_missed(golden, judgement, result, is_sum ? times : 1 / times)) return std::nullopt;
  return NumberApart{op, fmt::format("gives the {} of {} elements each, and the golden run the {}",
                                     is_sum ? "sum" : "mean", times, is_sum ? "mean" : "sum")};
}

bool has_type(const Pool& pool, std::string_view type) {
  for (std::uint32_t op = 0; op < pool.ops.size(); ++op) {
    if (pool.is_type(op, type)) return true;
  }
  return false;
}

// One side chooses the largest alone, and the other the smallest.
std::optional<NumberApart> opposite(const Pool& target, const Pool& golden, std::uint32_t op) {
  for (const auto& [own, other] : {std::pair("argmax", "argmin"), std::pair("argmin", "argmax")}) {
    if (!target.is_type(op, own) || has_type(golden, own) || !has_type(golden, other) || has_type(target, other))
      continue;
    return NumberApart{op, fmt::format("is {}, where the golden run has {}", own, other)};
  }
  return std::nullopt;
}

// How many variances the golden group norm of these data takes; 0: there is none.
std::uint64_t golden_groups(const Pool& golden, const RelationJudgement& judgement, const RoundedNumbers& read) {
  for (const std::uint32_t op : judgement.golden.ops) {
    const std::optional<double> groups = number_in(golden.catalog_op(op), "num_groups");
    if (!groups || golden.ops[op].inputs.empty()) continue;
    const PoolTensor& data = golden.tensors[golden.ops[op].inputs[0]];
    const std::vector<std::int64_t> shape = data.whole_shape();
    if (!shape.empty() && rounded_numbers(data.print) == read)
      return static_cast<std::uint64_t>(*groups) * static_cast<std::uint64_t>(shape[0]);
  }
  return 0;
}

std::optional<NumberApart> other_groups(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                        std::uint32_t op) {
  const PoolOp& own = target.ops[op];
  if ((!target.is_type(op, "var") && !target.is_type(op, "mean")) || own.inputs.empty() || own.outputs.empty())
    return std::nullopt;
  const std::uint32_t data = own.inputs[0], maker = target.tensors[data].op;
  if (!is_surely_golden(judgement, data) || maker == kNoOp) return std::nullopt;
  // Another shape makes the groups; else the axes that are named may be wrong.
  const bool shapes = moves_or_casts(target.op(maker).kind) && !chooses(target, maker) &&
                      !target.ops[maker].inputs.empty() &&
                      target.tensors[target.ops[maker].inputs[0]].shape.size() != target.tensors[data].shape.size();
  if (!shapes) return std::nullopt;
  const std::uint64_t wanted =
      golden_groups(golden, judgement, rounded_numbers(golden.tensors[judgement.relations[data].golden()].print));
  const std::uint64_t count = target.tensors[own.outputs[0]].print.count;
  if (wanted == 0 || count == 0 || count == wanted) return std::nullopt;
  return NumberApart{maker, fmt::format("makes {} groups of the data, and the golden norm {}", count, wanted)};
}

}  // namespace

std::optional<NumberApart> reduction_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                           std::uint32_t last) {
  for (const std::uint32_t op : judgement.target.ops) {
    if (op > last) break;
    if (auto apart = other_groups(target, golden, judgement, op)) return apart;
  }
  constexpr std::size_t kMostLooks = 4000;  // each sum is compared with all golden results
  for (std::size_t i = 0; i < std::min(judgement.target.ops.size(), kMostLooks); ++i) {
    const std::uint32_t op = judgement.target.ops[i];
    if (auto apart = sum_for_mean(target, golden, judgement, op)) return apart;
    if (auto apart = opposite(target, golden, op)) return apart;
  }
  return std::nullopt;
}

}  // namespace sonde
