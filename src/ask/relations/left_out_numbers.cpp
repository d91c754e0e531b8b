#include "ask/relations/left_out_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ask/compare/compare_words.h"
#include "ask/relations/standings.h"
#include "read/operators/op_family.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

bool computes_each(OpKind kind) {
  return kind == OpKind::elementwise || kind == OpKind::transcendental || kind == OpKind::exact;
}

// In order of size.
std::vector<double> numbers_of(const CompareOp& op) {
  std::vector<double> numbers;
  if (const std::optional<double> number = number_read(op)) numbers.push_back(*number);
  if (op.op->attributes != nullptr) {
    for (const Attribute& attribute : *op.op->attributes) {
      if (attribute.name == kOtherNumber) continue;  // number_read
      numbers.insert(numbers.end(), attribute.reals.begin(), attribute.reals.end());
    }
  }
  std::ranges::sort(numbers);
  return numbers;
}

bool are_called_alike(const CompareOp& a, const CompareOp& b) {
  constexpr double kTolerance = 1e-4;
  const auto are_near = [](double x, double y) { return std::abs(x - y) <= kTolerance * std::abs(y); };
  return OpFamilies::same(*a.family, *b.family) && std::ranges::equal(numbers_of(a), numbers_of(b), are_near);
}

// A multiplication that the target may do elsewhere, or by the reciprocal: the number alone counts.
bool has_number(const Pool& pool, double number) {
  constexpr double kTolerance = 1e-4;
  for (std::uint32_t op = 0; op < pool.ops.size(); ++op) {
    for (const double other : numbers_of(pool.op(op))) {
      const double size = std::abs(other);
      if (std::abs(size - number) <= kTolerance * number || std::abs(size * number - 1) <= kTolerance) return true;
    }
  }
  return false;
}

// It is called as no operator of the target is.
bool is_lacking(const Pool& target, const Pool& golden, std::uint32_t op) {
  const CompareOp& own = golden.op(op);
  if (!computes_each(own.kind) || !golden.is_of_forward(op) || numbers_of(own).empty()) return false;
  // Sums with small numbers keep a divisor from zero, and are compared with those of norms.
  const bool multiplies = number_multiplied_by(own).has_value();
  if (!multiplies && !golden.is_type(op, "clamp")) return false;
  // Whole numbers are made in many ways.
  const double number = multiplies ? std::abs(*number_read(own)) : 0;
  if (multiplies && (number == std::floor(number) || has_number(target, number))) return false;
  for (std::uint32_t other = 0; other < target.ops.size(); ++other) {
    if (are_called_alike(target.op(other), own)) return false;
  }
  return true;
}

// Golden operators that read the result, also as a view.
std::vector<std::uint32_t> readers_of(const Pool& golden, std::uint32_t tensor) {
  constexpr std::size_t kMost = 64;
  std::vector<std::uint32_t> readers, waiting{tensor};
  for (std::size_t i = 0; i < waiting.size() && waiting.size() < kMost; ++i) {
    for (const std::uint32_t reader : golden.tensors[waiting[i]].readers) {
      const std::vector<std::uint32_t>& outputs = golden.ops[reader].outputs;
      if (moves_or_casts(golden.op(reader).kind)) {
        waiting.insert(waiting.end(), outputs.begin(), outputs.end());
      } else {
        readers.push_back(reader);
      }
    }
  }
  return readers;
}

// What `op` reads and what corresponds is in one of the golden operators, too: many operators multiply.
bool may_be_of(const Pool& target, const Pool& golden, const RelationJudgement& judgement, std::uint32_t op,
               const std::vector<std::uint32_t>& golden_ops) {
  std::set<RoundedNumbers> theirs;  // also of views
  for (const std::uint32_t other : golden_ops) {
    for (const std::uint32_t input : golden.ops[other].inputs)
      theirs.insert(rounded_numbers(golden.tensors[input].print));
  }
  return std::ranges::all_of(target.ops[op].inputs, [&](std::uint32_t input) {
    const Relation& relation = judgement.relations[input];
    const bool is_known = relation && !relation.weak && !is_bad(judgement.standings[input]);
    return !is_known || std::ranges::any_of(relation.parts, [&](const RelationPart& part) {
      return theirs.contains(rounded_numbers(golden.tensors[part.golden].print));
    });
  });
}

// Results of one width, perhaps for more rows: experts may compute all tokens. Else the numbers are those of a function
// that the target computes at once elsewhere.
bool give_one_width(const Pool& target, std::uint32_t op, const Pool& golden, std::uint32_t golden_op) {
  const std::vector<std::uint32_t>&mine = target.ops[op].outputs, &theirs = golden.ops[golden_op].outputs;
  if (mine.empty() || theirs.empty()) return false;
  const PoolTensor &own = target.tensors[mine.front()], &other = golden.tensors[theirs.front()];
  if (own.print.count == other.print.count) return true;
  return !own.shape.empty() && !other.shape.empty() && own.shape.back() == other.shape.back();
}

// The first operator of the group that is called as the golden one, if all such ones are on its line.
std::uint32_t only_like(const Pool& target, const Pool& golden, std::uint32_t golden_op,
                        const std::vector<std::uint32_t>& group) {
  std::uint32_t found = kNoOp;
  for (const std::uint32_t op : group) {
    if (!computes_each(target.op(op).kind) || !are_called_alike(target.op(op), golden.op(golden_op))) continue;
    if (target.ops[op].inputs.size() != golden.ops[golden_op].inputs.size()) continue;
    if (!give_one_width(target, op, golden, golden_op)) continue;
    if (found != kNoOp && line_of(target.catalog_op(found)) != line_of(target.catalog_op(op))) return kNoOp;
    if (found == kNoOp) found = op;
  }
  return found;
}

}  // namespace

std::optional<NumberApart> left_out_with_number(const Pool& target, const Pool& golden,
                                                const RelationJudgement& judgement,
                                                const std::vector<std::uint32_t>& group) {
  for (const std::uint32_t op : judgement.golden.ops) {
    if (golden.ops[op].outputs.empty() || judgement.met[golden.ops[op].outputs.front()]) continue;
    if (!is_lacking(target, golden, op)) continue;
    for (const std::uint32_t reader : readers_of(golden, golden.ops[op].outputs.front())) {
      const std::uint32_t found = only_like(target, golden, reader, group);
      if (found == kNoOp || !may_be_of(target, golden, judgement, found, {op, reader})) continue;
      const CatalogOp &lacking = golden.catalog_op(op), &next = golden.catalog_op(reader);
      return NumberApart{found,
                         fmt::format("does what golden {}, {} does, of which the golden run first computes {}, {}",
                                     next.op_type, place_text(next), lacking.op_type, place_text(lacking))};
    }
  }
  return std::nullopt;
}

}  // namespace sonde
