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

}  // namespace

Region without_excused(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  const Sums sums(target, golden, judgement);
  Region region = judgement.target;
  for (const std::uint32_t op : judgement.target.ops) {
    if (sums.is_right(op) || is_scaled_elsewhere(target, golden, judgement, op)) region.has[op] = 0;
  }
  std::vector<std::uint32_t> left = region.ops;
  std::erase_if(left, [&](std::uint32_t op) { return !region.has[op]; });
  if (!left.empty()) region.ops = std::move(left);
  return region;
}

}  // namespace sonde
