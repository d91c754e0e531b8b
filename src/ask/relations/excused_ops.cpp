#include "ask/relations/excused_ops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ask/relations/numbers_apart.h"
#include "ask/relations/search.h"
#include "ask/relations/shown_by_use.h"
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

// Results that are golden ones times a number, which an operator behind them multiplies or divides: that operator may have
// another number, while the golden run scales before the product.
class ScaledBehind {
 public:
  ScaledBehind(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target), golden_(golden), judgement_(judgement), has_(target.ops.size()) {
    for (auto op = judgement.target.ops.rbegin(); op != judgement.target.ops.rend(); ++op) has_[*op] = find(*op);
    for (const std::uint32_t op : judgement.target.ops) has_[op] &= static_cast<char>(reads_right(op));
  }

  bool has(std::uint32_t op) const { return has_[op] != 0; }

 private:
  bool scales(std::uint32_t op) const { return target_.is_type(op, "mul") || target_.is_type(op, "div"); }
  bool passes_on(std::uint32_t op) const { return adds(target_, op) || moves_or_casts(target_.op(op).kind); }

  // Golden tensors, or multiples of them: operators before `op` are known.
  bool reads_right(std::uint32_t op) const {
    return std::ranges::all_of(target_.ops[op].inputs, [&](std::uint32_t input) {
      const std::uint32_t maker = target_.tensors[input].op;
      return !is_bad(judgement_.standings[input]) || (maker != kNoOp && has(maker));
    });
  }

  // Operators behind `op` are known.
  bool find(std::uint32_t op) const {
    const PoolOp& own = target_.ops[op];
    if (own.outputs.size() != 1 || judgement_.standings[own.outputs[0]] != Standing::alone) return false;
    const PoolTensor& result = target_.tensors[own.outputs[0]];
    if (result.readers.empty()) return false;
    // A part of a sum has no golden counterpart, but the sum has.
    if (adds(target_, op) && all_readers(op, [&](std::uint32_t next) { return adds(target_, next) && has(next); }))
      return true;
    if (target_.op(op).kind != OpKind::contraction && !passes_on(op)) return false;
    return leads_to_scaling(op) && is_multiple(result.print);
  }

  bool all_readers(std::uint32_t op, const auto& are) const {
    return std::ranges::all_of(target_.tensors[target_.ops[op].outputs[0]].readers, are);
  }

  bool leads_to_scaling(std::uint32_t op, int steps = 0) const {
    constexpr int kMostSteps = 6;
    return steps < kMostSteps && target_.ops[op].outputs.size() == 1 && all_readers(op, [&](std::uint32_t next) {
             return scales(next) || (passes_on(next) && leads_to_scaling(next, steps + 1));
           });
  }

  bool is_multiple(const TensorPrint& print) const {
    return std::ranges::any_of(judgement_.golden.ops, [&](std::uint32_t other) {
      return std::ranges::any_of(golden_.ops[other].outputs, [&](std::uint32_t output) {
        return !judgement_.met[output] && is_multiple_of(print, golden_.tensors[output].print);
      });
    });
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  std::vector<char> has_;  // by operator
};

// Operators whose results only those read that prove what they read.
void add_those_before(const Pool& target, const Region& region, std::vector<char>& is_proved) {
  for (auto op = region.ops.rbegin(); op != region.ops.rend(); ++op) {
    bool is_read = false, are_proved = true;
    for (const std::uint32_t output : target.ops[*op].outputs) {
      for (const std::uint32_t reader : target.tensors[output].readers) {
        if (!region.has[reader]) continue;
        is_read = true;
        are_proved = are_proved && is_proved[reader] != 0;
      }
    }
    if (is_read && are_proved) is_proved[*op] = 1;
  }
}

}  // namespace

Region without_excused(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                       const OwnLayout& own_layout) {
  const Sums sums(target, golden, judgement);
  const ScaledBehind scaled(target, golden, judgement);
  Region region = judgement.target;
  const std::vector<char> is_shown = shown_by_use(target, judgement);
  const auto all_are_shown = [&](std::uint32_t op) {
    return std::ranges::all_of(target.ops[op].outputs, [&](std::uint32_t output) { return is_shown[output] != 0; });
  };
  std::vector<char> is_excused(target.ops.size()), is_proved(target.ops.size());
  for (const std::uint32_t op : judgement.target.ops) {
    is_proved[op] = own_layout.has(op, is_excused) || all_are_shown(op);
    is_excused[op] =
        is_proved[op] || sums.is_right(op) || is_scaled_elsewhere(target, golden, judgement, op) || scaled.has(op);
  }
  add_those_before(target, judgement.target, is_proved);
  for (const std::uint32_t op : judgement.target.ops) {
    if (is_excused[op] || is_proved[op]) region.has[op] = 0;
  }
  std::vector<std::uint32_t> left = region.ops;
  std::erase_if(left, [&](std::uint32_t op) { return !region.has[op]; });
  if (!left.empty()) region.ops = std::move(left);
  return region;
}

}  // namespace sonde
