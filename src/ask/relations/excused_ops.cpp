#include "ask/relations/excused_ops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ask/relations/numbers_apart.h"
#include "ask/relations/search.h"
#include "ask/relations/standings.h"

namespace sonde {
namespace {

bool adds(const Pool& pool, std::uint32_t op) {
  return pool.is_type(op, "add") || pool.is_type(op, "sub") || pool.is_type(op, "rsub");
}

// Tensors that sums add up or subtract, where each sum adds to the one before. `inner`: the sums before are terms, too.
std::vector<std::uint32_t> terms_of(const Pool& pool, std::uint32_t op, bool inner) {
  std::vector<std::uint32_t> sums{op}, terms;
  constexpr std::size_t kMost = 16;
  for (std::size_t i = 0; i < sums.size() && i < kMost; ++i) {
    for (const std::uint32_t input : pool.ops[sums[i]].inputs) {
      const std::uint32_t from = pool.tensors[input].op;
      const bool is_inner = from != kNoOp && adds(pool, from);
      if (is_inner) sums.push_back(from);
      if (!is_inner || inner) terms.push_back(input);
    }
  }
  return terms;
}

bool is_negative_of(const TensorPrint& a, const TensorPrint& b) {
  constexpr double kTolerance = 1e-4;
  const double scale = kTolerance * std::max(a.whole.norm, b.whole.norm);
  return a.count == b.count && a.count > 3 && !a.is_constant() && std::abs(a.whole.norm - b.whole.norm) <= scale &&
         std::abs(a.whole.sum + b.whole.sum) <= scale * std::sqrt(static_cast<double>(a.count)) &&
         std::abs(a.min + b.max) <= scale && std::abs(a.max + b.min) <= scale;
}

class Sums {
 public:
  Sums(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target), golden_(golden), judgement_(judgement) {
    for (const std::uint32_t op : judgement.golden.ops) {
      if (adds(golden, op)) golden_sums_.push_back({op, terms_of(golden, op, true)});
    }
  }

  // It lacks terms, and others add them; or it is the negative of a golden sum.
  bool is_right(std::uint32_t op) const {
    const PoolOp& own = target_.ops[op];
    if (!adds(target_, op) || own.inputs.empty() || own.outputs.size() != 1) return false;
    const PoolTensor& result = target_.tensors[own.outputs[0]];
    if (judgement_.standings[own.outputs[0]] != Standing::alone || result.readers.empty()) return false;
    const bool goes_on =
        std::ranges::all_of(result.readers, [&](std::uint32_t reader) { return adds(target_, reader); });
    return std::ranges::any_of(golden_sums_, [&](const GoldenSum& sum) {
      if (sum.terms.size() < 2 || !has_all(sum.terms, terms_of(target_, op, false))) return false;
      // A sum of two terms is in the golden run, too.
      return (goes_on && sum.terms.size() > 2) || is_negative(result, sum.op);
    });
  }

 private:
  struct GoldenSum {
    std::uint32_t op;
    std::vector<std::uint32_t> terms;
  };

  bool has_all(const std::vector<std::uint32_t>& sum, const std::vector<std::uint32_t>& terms) const {
    return std::ranges::all_of(terms, [&](std::uint32_t term) {
      return std::ranges::any_of(sum, [&](std::uint32_t one) { return have_same_values(target_, term, golden_, one); });
    });
  }

  bool is_negative(const PoolTensor& result, std::uint32_t golden_sum) const {
    return std::ranges::any_of(golden_.ops[golden_sum].outputs, [&](std::uint32_t output) {
      return !judgement_.met[output] && is_negative_of(result.print, golden_.tensors[output].print);
    });
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  std::vector<GoldenSum> golden_sums_;
};

// A golden tensor times a number that the golden run multiplies by, too: perhaps the product of it and another tensor.
bool is_scaled_elsewhere(const Pool& target, const Pool& golden, const RelationJudgement& judgement, std::uint32_t op) {
  const PoolOp& own = target.ops[op];
  if (own.inputs.size() != 1 || own.outputs.size() != 1 || !is_surely_golden(judgement, own.inputs[0])) return false;
  const std::optional<double> factor = number_multiplied_by(target.op(op));
  // Whole numbers are found anywhere.
  if (!factor || *factor == std::floor(*factor) || judgement.is_weight[own.inputs[0]]) return false;
  return judgement.standings[own.outputs[0]] == Standing::alone && scales_by(golden, judgement.golden.ops, *factor);
}

// Each element is that of the other times one number, as far as sum, norm and extremes show it.
bool is_multiple_of(const TensorPrint& own, const TensorPrint& other) {
  constexpr double kTolerance = 1e-4;
  if (own.count != other.count || own.count < 4 || own.is_constant() || other.whole.norm == 0) return false;
  const double factor = own.whole.norm / other.whole.norm;
  const double slack = kTolerance * own.whole.norm;
  return std::abs(factor - 1) > kTolerance && std::abs(own.min - factor * other.min) <= slack &&
         std::abs(own.max - factor * other.max) <= slack &&
         std::abs(own.whole.sum - factor * other.whole.sum) <= slack * std::sqrt(static_cast<double>(own.count));
}

// A product of golden tensors that an operator behind it multiplies or divides, and a golden result times a number: that
// operator may have another number, while the golden run scales before the product.
bool is_scaled_behind(const Pool& target, const Pool& golden, const RelationJudgement& judgement, std::uint32_t op) {
  const PoolOp& own = target.ops[op];
  if (target.op(op).kind != OpKind::contraction || own.outputs.size() != 1) return false;
  const PoolTensor& result = target.tensors[own.outputs[0]];
  const auto is_golden = [&](std::uint32_t input) { return is_surely_golden(judgement, input); };
  if (judgement.standings[own.outputs[0]] != Standing::alone || !std::ranges::all_of(own.inputs, is_golden))
    return false;
  const auto is_else = [&](std::uint32_t next) {
    return !target.is_type(next, "mul") && !target.is_type(next, "div");  // the backward pass multiplies, too
  };
  if (result.readers.empty() || std::ranges::any_of(result.readers, is_else)) return false;
  return std::ranges::any_of(judgement.golden.ops, [&](std::uint32_t other) {
    return std::ranges::any_of(golden.ops[other].outputs, [&](std::uint32_t output) {
      return !judgement.met[output] && is_multiple_of(result.print, golden.tensors[output].print);
    });
  });
}

}  // namespace

Region without_excused(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  const Sums sums(target, golden, judgement);
  Region region = judgement.target;
  for (const std::uint32_t op : judgement.target.ops) {
    if (sums.is_right(op) || is_scaled_elsewhere(target, golden, judgement, op) ||
        is_scaled_behind(target, golden, judgement, op))
      region.has[op] = 0;
  }
  std::vector<std::uint32_t> left = region.ops;
  std::erase_if(left, [&](std::uint32_t op) { return !region.has[op]; });
  if (!left.empty()) region.ops = std::move(left);
  return region;
}

}  // namespace sonde
