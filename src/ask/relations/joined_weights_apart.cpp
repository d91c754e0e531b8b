#include "ask/relations/joined_weights_apart.h"

#include <fmt/format.h>

#include <algorithm>

#include "ask/relations/standings.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

// The golden product with this weight, of data with the numbers `read`; kNoOp: there is none.
std::uint32_t golden_product(const WeightCulprits& all, const RoundedNumbers& read, std::uint32_t weight) {
  for (std::uint32_t op = 0; op < all.golden.ops.size(); ++op) {
    if (all.golden.op(op).kind != OpKind::contraction) continue;
    const std::vector<std::uint32_t>& inputs = all.golden.ops[op].inputs;
    const auto is_weight = [&](std::uint32_t input) { return all.golden_roots[input] == weight; };
    const auto is_read = [&](std::uint32_t input) { return rounded_numbers(all.golden.tensors[input].print) == read; };
    if (std::ranges::any_of(inputs, is_weight) && std::ranges::any_of(inputs, is_read)) return op;
  }
  return kNoOp;
}

bool adds_bias_behind(const WeightCulprits& all, std::uint32_t op) {
  const std::vector<std::uint32_t>& outputs = all.target.ops[op].outputs;
  return !outputs.empty() && std::ranges::any_of(all.target.tensors[outputs[0]].readers, [&](std::uint32_t reader) {
    return all.target.is_type(reader, "add");
  });
}

std::ptrdiff_t weights_read(const Pool& pool, const std::vector<std::uint32_t>& roots, std::uint32_t op) {
  return std::ranges::count_if(pool.ops[op].inputs, [&](std::uint32_t input) { return roots[input] != kNoOp; });
}

bool chooses_rows(const Pool& pool, std::uint32_t op) {
  return pool.is_type(op, "embedding") || pool.is_type(op, "index") || pool.is_type(op, "indexselect");
}

}  // namespace

std::optional<Culprit> rows_in_another_order(const WeightCulprits& all, std::uint32_t op, std::uint32_t numbers,
                                             std::uint32_t weight) {
  const Relation &own = all.relation(weight), &by = all.relation(numbers);
  const std::vector<std::uint32_t>& outputs = all.target.ops[op].outputs;
  if (!chooses_rows(all.target, op) || all.target.tensors[numbers].has_fractions() || outputs.size() != 1)
    return std::nullopt;
  if (!own.is_whole() || own.weak || !by.is_whole() || all.is_good(outputs[0])) return std::nullopt;
  const RoundedNumbers read = rounded_numbers(all.golden.tensors[by.golden()].print);
  for (const std::uint32_t other : all.judgement.golden.ops) {
    if (!chooses_rows(all.golden, other) || all.golden.ops[other].outputs.size() != 1) continue;
    const std::uint32_t result = all.golden.ops[other].outputs[0];
    const std::vector<std::uint32_t>& inputs = all.golden.ops[other].inputs;
    const auto is_weight = [&](std::uint32_t input) { return all.golden_roots[input] == own.golden(); };
    const auto is_read = [&](std::uint32_t input) { return rounded_numbers(all.golden.tensors[input].print) == read; };
    if (std::ranges::none_of(inputs, is_weight) || std::ranges::none_of(inputs, is_read)) continue;
    if (all.judgement.met[result]) continue;
    return Culprit{
        .op = op,
        .weight = weight,
        .golden = own.golden(),
        .uncertain = true,
        .what = fmt::format("has the numbers of golden {}, and the rows that the same numbers choose differ: "
                            "its rows are in another order",
                            all.name_of(own))};
  }
  return std::nullopt;
}

std::optional<Culprit> joined_in_another_order(const WeightCulprits& all, std::uint32_t op, std::uint32_t data,
                                               std::uint32_t weight) {
  const Relation& joined = all.relation(weight);
  if (joined.kind != RelationKind::joined || !joined.is_of_sums || joined.weak) return std::nullopt;
  if (all.target.op(op).kind != OpKind::contraction || !is_surely_golden(all.judgement, data)) return std::nullopt;
  // Another weight that it reads is to blame.
  const auto is_wrong = [&](std::uint32_t input) {
    return all.roots[input] != kNoOp && !all.is_good(all.roots[input]);
  };
  if (std::ranges::any_of(all.target.ops[op].inputs, is_wrong)) return std::nullopt;
  const RoundedNumbers read = rounded_numbers(all.golden.tensors[all.relation(data).golden()].print);
  bool all_met = true;
  for (const RelationPart& part : joined.parts) {
    const std::uint32_t product = golden_product(all, read, part.golden);
    if (product == kNoOp || all.golden.ops[product].outputs.empty()) return std::nullopt;
    // The golden product adds the bias: without it the target's has no counterpart.
    const bool adds_more =
        weights_read(all.golden, all.golden_roots, product) > weights_read(all.target, all.roots, op);
    if (adds_more && adds_bias_behind(all, op)) return std::nullopt;
    all_met = all_met && all.judgement.met[all.golden.ops[product].outputs[0]] != 0;
  }
  if (all_met) return std::nullopt;
  return Culprit{.op = op,
                 .weight = weight,
                 .golden = joined.golden(),
                 .uncertain = true,
                 .what = fmt::format("has the numbers of {}, and the products with them differ: its parts are in "
                                     "another order, or those of the bias are",
                                     relation_text(joined, all.golden))};
}

std::optional<Culprit> left_in_golden_order(const WeightCulprits& all, std::uint32_t op, std::uint32_t data,
                                            std::uint32_t weight) {
  const Relation &own = all.relation(weight), &by = all.relation(data);
  const PoolTensor& one = all.target.tensors[weight];
  if (own.kind != RelationKind::same || own.weak || one.shape.size() != 1 || one.print.is_constant())
    return std::nullopt;
  const OpKind kind = all.target.op(op).kind;
  if (kind != OpKind::normalization && kind != OpKind::elementwise) return std::nullopt;
  const std::vector<std::uint32_t>& outputs = all.target.ops[op].outputs;
  if (outputs.empty() || all.is_good(outputs[0])) return std::nullopt;
  if (by.kind != RelationKind::joined || by.is_of_sums || by.weak || !by.merged.empty()) return std::nullopt;
  const std::vector<std::int64_t>& shape = all.target.tensors[data].shape;
  const bool is_last = by.axis + 1 == static_cast<std::int32_t>(shape.size()) && shape.back() == one.shape.front();
  const auto is_of_one = [&](const RelationPart& part) { return part.golden == by.golden(); };
  if (!is_last || !std::ranges::all_of(by.parts, is_of_one)) return std::nullopt;
  // A golden operator of the region reads the weight.
  for (const std::uint32_t other : all.judgement.golden.ops) {
    const std::vector<std::uint32_t>& inputs = all.golden.ops[other].inputs;
    const bool has_weight =
        std::ranges::any_of(inputs, [&](std::uint32_t input) { return all.golden_roots[input] == own.golden(); });
    if (!has_weight) continue;
    return Culprit{.op = op,
                   .weight = weight,
                   .golden = own.golden(),
                   .uncertain = true,
                   .what = fmt::format("is golden {} as it is, and what it is read with has golden elements in another "
                                       "order along this axis",
                                       all.name_of(own))};
  }
  return std::nullopt;
}

}  // namespace sonde
