#include "ask/relations/biases_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "read/operators/op_family.h"

namespace sonde {

// A bias that corresponds to nothing, and the result, or a part of it, is that of the golden product without a bias.
void BiasesApart::find_lost_biases(std::uint32_t first) {
  for (std::uint32_t op = 0; op < first; ++op) {
    if (target_.op(op).kind != OpKind::contraction || target_.ops[op].outputs.empty()) continue;
    for (const std::uint32_t input : target_.ops[op].inputs) {
      const std::uint32_t weight = roots_[input];
      const bool is_bias = weight != kNoOp && target_.tensors[weight].shape.size() == 1;
      if (!is_bias || is_good(weight) || target_.tensors[weight].print.count == 0) continue;
      if (lacks_bias(target_.ops[op].outputs[0]))
        add(weight, op, "corresponds to no golden parameter, and a part of the result lacks the golden bias");
    }
  }
}

// Also before the first operator that differs: the golden run adds the two at other places.
void BiasesApart::find_lost_siblings(std::uint32_t first) {
  if (!target_.has_values()) return;
  for (std::uint32_t op = 0; op < first; ++op) {
    if (target_.op(op).kind != OpKind::elementwise) continue;
    for (const std::uint32_t input : target_.ops[op].inputs) {
      const std::uint32_t weight = roots_[input];
      if (weight != kNoOp && is_good(weight) && relation(weight) && !relation(weight).weak)
        add_lost_sibling(op, weight);
    }
  }
}

// Statistics do not show which part of a golden weight it is: a sum of the product with it and a part of a bias has no
// golden counterpart.
bool BiasesApart::add_of_other_sums(std::uint32_t op, std::uint32_t data, std::uint32_t bias) {
  const std::uint32_t product = target_.tensors[data].op;
  if (product == kNoOp || target_.op(product).kind != OpKind::contraction) return false;
  if (target_.op(op).kind != OpKind::elementwise || !relation(bias).is_of_sums) return false;
  std::uint32_t weight = kNoOp;
  for (const std::uint32_t input : target_.ops[product].inputs) {
    if (roots_[input] == kNoOp && !is_good(input)) return false;
    if (roots_[input] != kNoOp && relation(roots_[input]).is_of_sums) weight = roots_[input];
  }
  if (weight == kNoOp || !are_read_together(relation(weight).golden(), relation(bias).golden())) return false;
  add(weight, product,
      fmt::format("is {}, and its product and the bias have no golden sum: it may be another part",
                  relation_text(relation(weight), golden_)));
  return true;
}

// The golden operator reads two biases, and the target has one of them: it should have their sum.
bool BiasesApart::add_lost_sibling(std::uint32_t op, std::uint32_t weight) {
  const std::uint32_t own = relation(weight).golden();
  if (target_.op(op).kind != OpKind::elementwise || relation(weight).kind == RelationKind::sum) return false;
  for (const std::uint32_t reader : golden_.tensors[own].readers) {
    // A norm does not add up those that it reads.
    if (!judgement_.golden.has[reader] || golden_.op(reader).kind == OpKind::normalization) continue;
    for (const std::uint32_t input : golden_.ops[reader].inputs) {
      const PoolTensor& other = golden_.tensors[input];
      const bool is_lost = input != own && other.is_weight() && !judgement_.met[input];
      if (!is_lost || other.shape != golden_.tensors[own].shape || other.print.proves_nothing()) continue;
      add(weight, op,
          fmt::format("is golden {} alone; golden {}, which the golden {} reads too, was not carried over",
                      name_of(relation(weight)), golden_.name_of(input), golden_.catalog_op(reader).op_type));
      if (!all_.found.empty() && all_.found.back().weight == weight) all_.found.back().was_lost = !target_.has_values();
      return true;
    }
  }
  return false;
}

// A product with one part of a fused golden weight, to which a bias is added that is another part of the golden bias.
bool BiasesApart::add_of_another_part(std::uint32_t op, std::uint32_t data, std::uint32_t bias) {
  const std::uint32_t product = target_.tensors[data].op;
  if (relation(bias).kind != RelationKind::cut || product == kNoOp) return false;
  if (target_.op(op).kind != OpKind::elementwise || target_.op(product).kind != OpKind::contraction) return false;
  const RelationPart& of_bias = relation(bias).parts.front();
  for (const std::uint32_t input : target_.ops[product].inputs) {
    const std::uint32_t weight = roots_[input];
    if (weight == kNoOp || relation(weight).kind != RelationKind::cut) continue;
    const RelationPart& of_weight = relation(weight).parts.front();
    if (!are_read_together(of_weight.golden, of_bias.golden)) continue;
    const bool is_one_part = of_weight.start == of_bias.start && of_weight.step == of_bias.step;
    if (is_one_part || of_weight.count != of_bias.count) continue;
    add(weight, product,
        fmt::format("is {}, and the bias that is added is {}: another part", relation_text(relation(weight), golden_),
                    relation_text(relation(bias), golden_)));
    return true;
  }
  return false;
}

// A weight and a bias of one operator, each joined of golden ones, in another order: a part gets the bias of another.
bool BiasesApart::add_beside_another(std::uint32_t op, std::uint32_t bias) {
  const std::vector<RelationPart>& of_bias = relation(bias).parts;
  if (relation(bias).kind != RelationKind::joined || relation(bias).is_of_sums) return false;
  for (const std::uint32_t input : target_.ops[op].inputs) {
    const std::uint32_t weight = roots_[input];
    if (weight == kNoOp || weight == bias || target_.tensors[weight].shape.size() < 2) continue;
    const std::vector<RelationPart>& of_weight = relation(weight).parts;
    if (relation(weight).kind != RelationKind::joined || of_weight.size() != of_bias.size()) continue;
    const auto are_apart = [&](std::size_t i) { return !are_read_together(of_weight[i].golden, of_bias[i].golden); };
    const auto belongs = [&](const RelationPart& part) {
      return std::ranges::any_of(
          of_weight, [&](const RelationPart& other) { return are_read_together(other.golden, part.golden); });
    };
    std::size_t i = 0;
    while (i < of_bias.size() && !are_apart(i)) ++i;
    if (i == of_bias.size() || !std::ranges::all_of(of_bias, belongs)) continue;
    const bool is_of_weight = is_in_golden_order(bias) && !is_in_golden_order(weight);
    const std::uint32_t other = is_of_weight ? weight : bias;
    add(other, op,
        fmt::format("is {}, and what is read with it is {}: another order", relation_text(relation(other), golden_),
                    relation_text(relation(is_of_weight ? bias : weight), golden_)));
    return true;
  }
  return false;
}

bool BiasesApart::lacks_bias(std::uint32_t tensor) const {
  std::vector<std::uint32_t> waiting{tensor};
  constexpr std::size_t kMost = 32;
  for (std::size_t i = 0; i < waiting.size() && i < kMost; ++i) {
    const Relation& found = relation(waiting[i]);
    if (found) {
      const PoolTensor& golden = golden_.tensors[found.golden()];
      if (golden.computed != nullptr && golden_.op(golden.op).kind == OpKind::contraction) return true;
      continue;
    }
    for (const std::uint32_t reader : target_.tensors[waiting[i]].readers) {
      if (!moves_or_casts(target_.op(reader).kind)) continue;
      waiting.insert(waiting.end(), target_.ops[reader].outputs.begin(), target_.ops[reader].outputs.end());
    }
  }
  return false;
}

// The golden run reads its parts one after the other.
bool BiasesApart::is_in_golden_order(std::uint32_t weight) const {
  const auto first_reader = [&](const RelationPart& part) {
    const std::vector<std::uint32_t>& readers = golden_.tensors[part.golden].readers;
    return readers.empty() ? kNoOp : readers.front();
  };
  return std::ranges::is_sorted(relation(weight).parts, {}, first_reader);
}

bool BiasesApart::are_read_together(std::uint32_t a, std::uint32_t b) const {
  const std::vector<std::uint32_t>&mine = golden_.tensors[a].readers, &theirs = golden_.tensors[b].readers;
  return std::ranges::any_of(mine,
                             [&](std::uint32_t reader) { return std::ranges::find(theirs, reader) != theirs.end(); });
}

}  // namespace sonde
