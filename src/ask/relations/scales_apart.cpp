#include "ask/relations/scales_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ask/relations/standings.h"
#include "read/operators/op_attributes.h"

namespace sonde {
namespace {

constexpr int kMostScaledSteps = 12;

bool is_near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

// Scores, from queries and keys to the softmax.
struct Scores {
  double scale = 1;
  std::vector<std::uint32_t> scalers;  // operators that multiply by a number
  std::uint32_t query = 0, key = 0;    // tensors that are not scaled yet
};

std::uint32_t data_of(const Pool& pool, std::uint32_t op) {
  for (const std::uint32_t input : pool.ops[op].inputs) {
    if (pool.tensors[input].print.count > 1) return input;
  }
  return kNoOp;
}

// Back to what is neither moved nor multiplied by a number.
std::uint32_t unscaled(const Pool& pool, std::uint32_t tensor, Scores& into) {
  for (int step = 0; step < kMostScaledSteps; ++step) {
    const std::uint32_t maker = pool.tensors[tensor].op;
    if (maker == kNoOp) break;
    const std::optional<double> number = number_multiplied_by(pool.op(maker));
    const bool only_moves = moves_or_casts(pool.op(maker).kind) && pool.ops[maker].inputs.size() == 1;
    const std::uint32_t before = data_of(pool, maker);
    if ((!number && !only_moves) || before == kNoOp) break;
    if (pool.tensors[before].print.count != pool.tensors[tensor].print.count) break;
    if (number) {
      into.scale *= *number;
      into.scalers.push_back(maker);
    }
    tensor = before;
  }
  return tensor;
}

// Forward to the softmax; false: there is none.
bool reaches_softmax(const Pool& pool, std::uint32_t tensor, Scores& into) {
  for (int step = 0; step < kMostScaledSteps; ++step) {
    std::uint32_t next = kNoOp;
    for (const std::uint32_t reader : pool.tensors[tensor].readers) {
      if (pool.is_type(reader, "softmax")) return true;
      const OpKind kind = pool.op(reader).kind;
      const bool keeps = moves_or_casts(kind) || kind == OpKind::elementwise || pool.is_type(reader, "maskedfill");
      if (next == kNoOp && pool.is_of_forward(reader) && keeps && pool.ops[reader].outputs.size() == 1) next = reader;
    }
    if (next == kNoOp) return false;
    if (const std::optional<double> number = number_multiplied_by(pool.op(next))) {
      into.scale *= *number;
      into.scalers.push_back(next);
    }
    tensor = pool.ops[next].outputs[0];
  }
  return false;
}

std::optional<Scores> scores_of(const Pool& pool, std::uint32_t op) {
  const PoolOp& own = pool.ops[op];
  Scores scores;
  if (own.inputs.size() < 2 || own.outputs.empty()) return std::nullopt;
  if (pool.is_type(op, "scaleddotproductattention")) {
    const std::vector<std::int64_t>& query = pool.tensors[own.inputs[0]].shape;
    if (query.empty()) return std::nullopt;
    scores.scale = number_in(pool.catalog_op(op), "scale").value_or(1 / std::sqrt(static_cast<double>(query.back())));
  } else {
    const bool is_product = pool.is_type(op, "matmul") || pool.is_type(op, "bmm") || pool.is_type(op, "einsum");
    if (!is_product || own.outputs.size() != 1 || !reaches_softmax(pool, own.outputs[0], scores)) return std::nullopt;
  }
  scores.query = unscaled(pool, own.inputs[0], scores);
  scores.key = unscaled(pool, own.inputs[1], scores);
  return scores;
}

std::set<RoundedNumbers> read_by(const Pool& pool, const Scores& scores) {
  return {rounded_numbers(pool.tensors[scores.query].print), rounded_numbers(pool.tensors[scores.key].print)};
}

std::optional<NumberApart> apart(const Pool& target, const Scores& own, double golden_scale) {
  if (own.scalers.empty() || is_near(own.scale, golden_scale)) return std::nullopt;
  const auto factor_of = [&](std::uint32_t op) { return *number_multiplied_by(target.op(op)); };
  std::vector<std::uint32_t> others = own.scalers;
  // Queries and keys are often scaled by the root of it each.
  if (others.size() > 1)
    std::erase_if(others, [&](std::uint32_t op) { return is_near(factor_of(op) * factor_of(op), golden_scale); });
  const std::uint32_t op = others.empty() ? own.scalers.front() : others.front();
  const double factor = factor_of(op);
  const std::string in_all =
      own.scalers.size() > 1 ? fmt::format(", and all together by {:.4g}", own.scale) : std::string();
  return NumberApart{
      op, fmt::format("scales by {:.4g}{}, and the golden attention by {:.4g}", factor, in_all, golden_scale)};
}

// The product of the queries and keys of these scores.
bool is_surely_read(const RelationJudgement& judgement, const Scores& scores) {
  return is_surely_golden(judgement, scores.query) && is_surely_golden(judgement, scores.key);
}

}  // namespace

std::optional<NumberApart> scale_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                       const std::vector<std::uint32_t>& ops) {
  if (ops.empty()) return std::nullopt;
  for (std::uint32_t op = 0; op <= ops.back(); ++op) {
    const std::optional<Scores> own = scores_of(target, op);
    if (!own || !is_surely_read(judgement, *own)) continue;
    const bool is_near_group =
        std::ranges::find(ops, op) != ops.end() || std::ranges::any_of(own->scalers, [&](std::uint32_t scaler) {
          return std::ranges::find(ops, scaler) != ops.end();
        });
    if (!is_near_group) continue;
    const std::set<RoundedNumbers> read{rounded_numbers(golden.tensors[judgement.relations[own->query].golden()].print),
                                        rounded_numbers(golden.tensors[judgement.relations[own->key].golden()].print)};
    for (const std::uint32_t other : judgement.golden.ops) {
      const std::optional<Scores> theirs = scores_of(golden, other);
      if (!theirs || read_by(golden, *theirs) != read) continue;
      return apart(target, *own, theirs->scale);
    }
  }
  return std::nullopt;
}

}  // namespace sonde
