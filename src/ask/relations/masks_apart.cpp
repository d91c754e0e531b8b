#include "ask/relations/masks_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ask/relations/standings.h"
#include "ground/base/shape.h"
#include "read/operators/op_attributes.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

constexpr double kHiding = -1e4;  // added to a score, it is hidden

bool applies_mask(const Pool& pool, std::uint32_t op) {
  return pool.is_type(op, "add") || pool.is_type(op, "maskedfill") || pool.is_type(op, "where");
}

// Of a sum with a mask that hides by -inf: the others are 0.
std::optional<double> share_of_infinite(const PoolTensor& tensor) {
  const auto elements = static_cast<double>(element_count(tensor.of.tensor->shape));
  const CatalogTensor& own = *tensor.of.tensor;
  if (tensor.print.by_values) {
    const bool others_are_0 = tensor.print.whole.norm == 0 && tensor.print.non_finite > 0;
    return others_are_0 ? std::optional(static_cast<double>(tensor.print.non_finite) / elements) : std::nullopt;
  }
  if (!own.statistics || own.statistics->negative_inf_count.value_or(0) == 0) return std::nullopt;
  const KnownStatistics& known = *own.statistics;
  const double hidden = static_cast<double>(*known.negative_inf_count);
  return static_cast<double>(known.zero_count.value_or(0)) + hidden == elements ? std::optional(hidden / elements)
                                                                                : std::nullopt;
}

// The shares that golden attentions hide; empty: none of them hides, or how many is not known.
std::vector<double> golden_shares(const Pool& golden) {
  std::vector<double> shares;
  for (std::uint32_t op = 0; op < golden.ops.size(); ++op) {
    const std::vector<std::uint32_t>& inputs = golden.ops[op].inputs;
    if (golden.is_type(op, "scaleddotproductattention")) {
      const auto masked = std::ranges::find(golden.ops[op].slots, 3U);
      if (masked != golden.ops[op].slots.end()) {
        const auto share =
            share_of_mask(golden, inputs[static_cast<std::size_t>(masked - golden.ops[op].slots.begin())]);
        if (!share) return {};
        shares.push_back(*share);
      } else if (number_in(golden.catalog_op(op), "is_causal").value_or(0) != 0 && inputs.size() > 1) {
        const std::vector<std::int64_t> query = golden.tensors[inputs[0]].whole_shape(),
                                        key = golden.tensors[inputs[1]].whole_shape();
        if (query.size() < 2 || key.size() < 2) return {};
        const std::int64_t rows = query[query.size() - 2], columns = key[key.size() - 2];
        double hidden = 0;
        for (std::int64_t row = 0; row < rows; ++row)
          hidden += static_cast<double>(std::max<std::int64_t>(0, columns - 1 - row));
        shares.push_back(hidden / static_cast<double>(rows * columns));
      }
      continue;
    }
    if (!golden.is_type(op, "softmax") || inputs.empty()) continue;
    const std::uint32_t maker = golden.tensors[inputs[0]].op;
    if (maker == kNoOp || !applies_mask(golden, maker)) continue;
    for (const std::uint32_t input : golden.ops[maker].inputs) {
      if (const std::optional<double> share = share_of_mask(golden, input)) shares.push_back(*share);
    }
  }
  return shares;
}

// Masks of experts and of rows are applied to other results.
bool is_of_scores(const Pool& pool, std::uint32_t op) {
  const std::vector<std::uint32_t>& outputs = pool.ops[op].outputs;
  return !outputs.empty() && std::ranges::any_of(pool.tensors[outputs[0]].readers,
                                                 [&](std::uint32_t reader) { return pool.is_type(reader, "softmax"); });
}

bool is_share_of(const std::vector<double>& shares, double own) {
  constexpr double kSlack = 1e-3;  // sums of large numbers
  return std::ranges::any_of(
      shares, [&](double share) { return std::abs(own - share) < kSlack || std::abs(1 - own - share) < kSlack; });
}

// Of a mask that joins others, the one that is in no golden mask; else itself.
std::uint32_t part_to_blame(const Pool& pool, std::uint32_t mask, const std::vector<double>& shares) {
  const std::uint32_t maker = pool.tensors[mask].op;
  if (maker == kNoOp) return mask;
  std::vector<std::uint32_t> others;
  if (pool.ops[maker].inputs.size() < 2) return mask;
  for (const std::uint32_t input : pool.ops[maker].inputs) {
    const bool is_flags = pool.tensors[input].dtype() == DType::bool8;
    const std::optional<double> share = is_flags ? share_of_mask(pool, input) : std::nullopt;
    if (share && !is_share_of(shares, *share)) others.push_back(input);
  }
  return others.size() == 1 ? others.front() : mask;
}

// A mask that only is another one, moved or negated, is made where that one is.
std::uint32_t first_maker_of_mask(const Pool& pool, std::uint32_t mask, const auto& is_golden) {
  constexpr int kMostSteps = 8;
  for (int step = 0; step < kMostSteps; ++step) {
    const std::uint32_t maker = pool.tensors[mask].op;
    if (maker == kNoOp || pool.ops[maker].inputs.size() != 1) break;
    const std::uint32_t before = pool.ops[maker].inputs.front();
    const std::optional<double> own = share_of_mask(pool, mask), other = share_of_mask(pool, before);
    const bool is_it = own && other && is_share_of({*own}, *other);
    if (pool.tensors[before].op == kNoOp || !is_it || is_golden(before)) break;
    mask = before;
  }
  return pool.tensors[mask].op;
}

}  // namespace

std::optional<double> share_of_mask(const Pool& pool, std::uint32_t tensor) {
  const PoolTensor& own = pool.tensors[tensor];
  const TensorPrint& print = own.print;
  if (own.dtype() == DType::bool8)
    return print.count > 1 ? std::optional(print.whole.sum / static_cast<double>(print.count)) : std::nullopt;
  if (!own.has_fractions()) return std::nullopt;
  if (const std::optional<double> infinite = share_of_infinite(own)) return infinite;
  if (print.count < 2 || print.min > kHiding || print.max != 0) return std::nullopt;
  return print.whole.sum / (print.min * static_cast<double>(print.count));
}

std::uint32_t first_maker_of_flags(const Pool& target, const RelationJudgement& judgement, std::uint32_t op) {
  const std::vector<std::uint32_t>& outputs = target.ops[op].outputs;
  if (outputs.size() != 1 || target.tensors[outputs[0]].dtype() != DType::bool8) return op;
  const auto is_golden = [&](std::uint32_t mask) {
    return judgement.relations[mask].is_whole() && !is_bad(judgement.standings[mask]);
  };
  return first_maker_of_mask(target, outputs[0], is_golden);
}

std::optional<NumberApart> mask_apart(const Pool& target, const Pool& golden, const std::vector<std::uint32_t>& ops) {
  const std::vector<double> shares = golden_shares(golden);
  if (shares.empty()) return std::nullopt;
  for (const std::uint32_t op : ops) {
    if (!applies_mask(target, op) || !is_of_scores(target, op)) continue;
    for (const std::uint32_t input : target.ops[op].inputs) {
      const std::optional<double> own = share_of_mask(target, input);
      if (!own || is_share_of(shares, *own)) continue;
      const std::uint32_t maker =
          first_maker_of_mask(target, part_to_blame(target, input, shares), [](std::uint32_t) { return false; });
      return NumberApart{maker == kNoOp ? op : maker,
                         fmt::format("makes a mask of {:.3g} % of the scores, and the golden attention hides {:.3g} %",
                                     100 * *own, 100 * shares.front())};
    }
  }
  return std::nullopt;
}

}  // namespace sonde
