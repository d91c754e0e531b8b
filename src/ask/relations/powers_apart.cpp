#include "ask/relations/powers_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ask/relations/standings.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// By operator: it computes of numbers of the program alone, of neither data nor weights.
std::vector<char> made_of_numbers(const Pool& pool) {
  std::vector<char> made(pool.ops.size());
  for (std::uint32_t op = 0; op < pool.ops.size(); ++op) {
    made[op] = std::ranges::all_of(pool.ops[op].inputs, [&](std::uint32_t input) {
      const std::uint32_t maker = pool.tensors[input].op;
      return maker == kNoOp ? pool.tensors[input].print.count == 1 : made[maker] != 0;
    });
  }
  return made;
}

class Powers {
 public:
  Powers(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target), golden_(golden), judgement_(judgement), made_(made_of_numbers(target)) {
    for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
      const PoolTensor& own = golden.tensors[i];
      if (own.print.count == 0) continue;
      golden_numbers_.insert(rounded_numbers(own.print));
      if (!judgement.met[i] && own.has_fractions()) missed_.push_back(i);
    }
  }

  std::optional<Culprit> find() const {
    for (const std::uint32_t op : judgement_.target.ops) {
      if (!made_[op] || target_.ops[op].outputs.size() != 1) continue;
      if (!raises_a_number(op)) continue;
      if (std::optional<Culprit> found = raised_by(op)) return found;
    }
    return std::nullopt;
  }

 private:
  std::optional<Culprit> raised_by(std::uint32_t op) const {
    const std::vector<std::uint32_t> tables = tables_of(op);
    if (tables.empty()) return std::nullopt;
    for (const std::uint32_t table : tables) {
      for (const std::uint32_t other : missed_) {
        const std::optional<double> share = power_between(table, other);
        if (!share) continue;
        const double base = base_of(op);
        return culprit_of(
            op, table, other,
            fmt::format("raises {:.6g} to powers, and the golden run {:.6g}", base, std::pow(base, *share)));
      }
    }
    for (const std::uint32_t table : tables) {
      const auto other = std::ranges::find_if(missed_, [&](std::uint32_t one) {
        return golden_.tensors[one].print.count == target_.tensors[table].print.count && is_table(one);
      });
      if (other == missed_.end()) continue;
      std::optional<Culprit> found = culprit_of(
          op, table, *other,
          fmt::format("raises {:.6g} to powers, of which no golden table of this size follows", base_of(op)));
      found->uncertain = true;
      return found;
    }
    return std::nullopt;
  }

  Culprit culprit_of(std::uint32_t op, std::uint32_t table, std::uint32_t other, std::string what) const {
    return {.op = with_number(op), .golden = other, .like = table, .what = std::move(what)};
  }

  // exp of a multiple: the number is that of the multiplication.
  std::uint32_t with_number(std::uint32_t op) const {
    if (!target_.is_type(op, "exp")) return op;
    const std::uint32_t maker = target_.tensors[target_.ops[op].inputs[0]].op;
    return maker != kNoOp && number_multiplied_by(target_.op(maker)) ? maker : op;
  }

  // To the powers that it reads, and not these to a number.
  bool raises_a_number(std::uint32_t op) const {
    if (target_.is_type(op, "exp")) return true;
    if (!target_.is_type(op, "pow")) return false;
    const TensorPrint &of = target_.tensors[target_.ops[op].inputs[0]].print,
                      &result = target_.tensors[target_.ops[op].outputs[0]].print;
    constexpr double kNear = 1e-4;
    return of.count > 1 && result.min > 0 && !of.is_constant() &&
           std::abs(std::pow(base_of(op), of.min) - result.min) <= kNear * result.min;
  }

  double base_of(std::uint32_t op) const {
    const TensorPrint &of = target_.tensors[target_.ops[op].inputs[0]].print,
                      &result = target_.tensors[target_.ops[op].outputs[0]].print;
    if (target_.is_type(op, "exp")) return std::exp(1.0);
    return of.max > 0 ? std::pow(result.max, 1 / of.max) : std::pow(result.min, 1 / of.min);
  }

  // Tensors that correspond to nothing and follow from the powers by numbers alone. Empty: one corresponds, or is
  // multiplied by whole numbers that no golden tensor has, such as other positions.
  std::vector<std::uint32_t> tables_of(std::uint32_t op) const {
    constexpr std::size_t kMost = 64;
    std::vector<std::uint32_t> tables{target_.ops[op].outputs[0]};
    for (std::size_t i = 0; i < tables.size() && tables.size() < kMost; ++i) {
      if (judgement_.relations[tables[i]] && !judgement_.relations[tables[i]].weak) return {};
      for (const std::uint32_t reader : target_.tensors[tables[i]].readers) {
        if (!made_with_data_of_places(reader)) continue;
        if (!reads_golden_places(reader)) return {};
        for (const std::uint32_t output : target_.ops[reader].outputs) {
          if (std::ranges::find(tables, output) == tables.end()) tables.push_back(output);
        }
      }
    }
    return tables;
  }

  // Positions may come from outside.
  bool made_with_data_of_places(std::uint32_t op) const {
    return std::ranges::all_of(target_.ops[op].inputs, [&](std::uint32_t input) {
      const std::uint32_t maker = target_.tensors[input].op;
      return (maker != kNoOp && made_[maker] != 0) || target_.tensors[input].print.count == 1 || are_places(input) ||
             follows_from_places(input);
    });
  }

  bool follows_from_places(std::uint32_t tensor) const {
    constexpr int kMostSteps = 4;
    for (int i = 0; i < kMostSteps; ++i) {
      if (are_places(tensor)) return true;
      const std::uint32_t maker = target_.tensors[tensor].op;
      if (maker == kNoOp || target_.ops[maker].inputs.size() != 1) return false;
      const OpKind kind = target_.op(maker).kind;
      if (!moves_or_casts(kind) && !target_.is_type(maker, "cos") && !target_.is_type(maker, "sin") &&
          kind != OpKind::elementwise)
        return false;
      tensor = target_.ops[maker].inputs[0];
    }
    return false;
  }

  bool are_places(std::uint32_t tensor) const {
    const PoolTensor& own = target_.tensors[tensor];
    return own.print.count > 1 && own.print.whole_numbers && !own.is_weight();
  }

  bool reads_golden_places(std::uint32_t op) const {
    return std::ranges::all_of(target_.ops[op].inputs, [&](std::uint32_t input) {
      return !has_whole_numbers(input) || golden_numbers_.contains(rounded_numbers(target_.tensors[input].print));
    });
  }

  // By its numbers: also as another type.
  bool has_whole_numbers(std::uint32_t tensor) const {
    const PoolTensor& own = target_.tensors[tensor];
    if (own.print.count < 2) return false;
    if (own.print.whole_numbers || !own.has_fractions()) return true;
    const std::uint32_t maker = own.op;
    return maker != kNoOp && moves_or_casts(target_.op(maker).kind) && !target_.ops[maker].inputs.empty() &&
           has_whole_numbers(target_.ops[maker].inputs[0]);
  }

  // Of a golden tensor: a buffer, or computed of numbers and whole numbers.
  bool is_table(std::uint32_t tensor) const {
    constexpr int kMostSteps = 12;
    std::vector<std::uint32_t> waiting{tensor};
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting.size() > kMostSteps) return false;
      const PoolTensor& own = golden_.tensors[waiting[i]];
      if (own.op == kNoOp) {
        const bool is_plain = !own.has_fractions() || own.print.count == 1;
        if (!is_plain && !own.is_weight()) return false;
        continue;
      }
      const OpKind kind = golden_.op(own.op).kind;
      if (kind == OpKind::contraction && !golden_.is_type(own.op, "outer") && !golden_.is_type(own.op, "matmul") &&
          !golden_.is_type(own.op, "einsum") && !golden_.is_type(own.op, "bmm"))
        return false;
      if (kind == OpKind::normalization || golden_.is_type(own.op, "embedding")) return false;
      waiting.insert(waiting.end(), golden_.ops[own.op].inputs.begin(), golden_.ops[own.op].inputs.end());
    }
    return true;
  }

  // The golden tensor is the table to this power, element by element; as far as statistics go, of equal ratios.
  std::optional<double> power_between(std::uint32_t table, std::uint32_t other) const {
    const TensorPrint &own = target_.tensors[table].print, &theirs = golden_.tensors[other].print;
    if (own.count < 2 || own.count != theirs.count || own.min <= 0 || theirs.min <= 0) return std::nullopt;
    constexpr double kNear = 1e-4;
    // Powers begin with the number to 0.
    const auto extreme = [](const TensorPrint& print) {
      return std::abs(print.max - 1) <= kNear ? print.min : print.max;
    };
    const double a = extreme(own), b = extreme(theirs);
    if (a == 1 || b == 1 || (a < 1) != (b < 1)) return std::nullopt;
    if (std::abs((a < 1 ? theirs.max : theirs.min) - 1) > kNear) return std::nullopt;
    const double share = std::log(b) / std::log(a);
    double sum = 0;
    for (std::uint64_t i = 0; i < own.count; ++i)
      sum += std::pow(b, static_cast<double>(i) / static_cast<double>(own.count - 1));
    const bool is_power = std::abs(sum - theirs.whole.sum) <= 10 * kNear * std::abs(sum);
    return is_power && std::abs(share - 1) > kNear ? std::optional(share) : std::nullopt;
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const std::vector<char> made_;
  std::set<RoundedNumbers> golden_numbers_;
  std::vector<std::uint32_t> missed_;  // golden tensors that correspond to nothing
};

}  // namespace

std::optional<Culprit> powers_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  return Powers(target, golden, judgement).find();
}

}  // namespace sonde
