#include "ask/relations/norm_behind.h"

#include <algorithm>
#include <set>

#include "ask/relations/standings.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

bool is_of_norm(OpKind kind) {
  return kind == OpKind::elementwise || kind == OpKind::reduction || kind == OpKind::transcendental ||
         kind == OpKind::exact || moves_or_casts(kind);
}

// The golden tensor that all which `op` follows from is; nothing: several, or a product lies between.
std::optional<RoundedNumbers> data_behind(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                          std::uint32_t op, const std::vector<std::uint32_t>& roots) {
  constexpr std::size_t kMostOps = 16;
  std::optional<RoundedNumbers> data;
  std::set<std::uint32_t> seen{op};
  std::vector<std::uint32_t> waiting{op};
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (waiting.size() > kMostOps || !is_of_norm(target.op(waiting[i]).kind)) return std::nullopt;
    for (const std::uint32_t input : target.ops[waiting[i]].inputs) {
      if (roots[input] != kNoOp || !target.tensors[input].has_fractions()) continue;
      const Relation& relation = judgement.relations[input];
      if (is_surely_golden(judgement, input)) {
        const RoundedNumbers numbers = rounded_numbers(golden.tensors[relation.golden()].print);
        if (data && *data != numbers) return std::nullopt;
        data = numbers;
        continue;
      }
      const std::uint32_t maker = target.tensors[input].op;
      if (maker == kNoOp) return std::nullopt;
      if (seen.insert(maker).second) waiting.push_back(maker);
    }
  }
  return data;
}

}  // namespace

std::optional<std::string> weight_of_norm_behind(const Pool& target, const Pool& golden,
                                                 const RelationJudgement& judgement, std::uint32_t op,
                                                 std::uint32_t weight, const std::vector<std::uint32_t>& roots,
                                                 const std::vector<std::uint32_t>& golden_roots) {
  if (target.op(op).kind != OpKind::elementwise || !judgement.relations[weight]) return std::nullopt;
  const std::optional<RoundedNumbers> data = data_behind(target, golden, judgement, op, roots);
  if (!data) return std::nullopt;
  const auto numbers_of_golden = [&](std::uint32_t tensor) { return rounded_numbers(golden.tensors[tensor].print); };
  const RoundedNumbers own = numbers_of_golden(judgement.relations[weight].golden());
  std::optional<std::string> theirs;
  for (const std::uint32_t norm : judgement.golden.ops) {
    const std::vector<std::uint32_t>& inputs = golden.ops[norm].inputs;
    if (golden.op(norm).kind != OpKind::normalization) continue;
    if (std::ranges::none_of(inputs, [&](std::uint32_t input) { return numbers_of_golden(input) == *data; })) continue;
    if (reads_what_follows_from(golden, norm, judgement.relations[weight].golden())) return std::nullopt;
    for (const std::uint32_t input : inputs) {
      const std::uint32_t root = golden_roots[input];
      if (root == kNoOp || golden.tensors[root].print.count != target.tensors[weight].print.count) continue;
      if (numbers_of_golden(root) == own) return std::nullopt;
      if (!theirs) theirs = std::string(golden.name_of(root));
    }
  }
  return theirs;
}

std::optional<std::string> weight_of_written_norm(const Pool& golden, const RelationJudgement& judgement,
                                                  std::uint32_t data, std::uint32_t weight,
                                                  const std::vector<std::uint32_t>& golden_roots) {
  constexpr std::size_t kMostTensors = 64;
  if (!judgement.relations[data].is_whole() || !judgement.relations[weight].is_whole()) return std::nullopt;
  const std::uint32_t own = judgement.relations[weight].golden();
  const RoundedNumbers read = rounded_numbers(golden.tensors[judgement.relations[data].golden()].print);
  std::set<std::uint32_t> derived;  // tensors that follow from the data alone
  std::vector<std::uint32_t> waiting;
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    if (rounded_numbers(golden.tensors[i].print) == read && derived.insert(i).second) waiting.push_back(i);
  }
  std::optional<std::string> theirs;
  for (std::size_t i = 0; i < waiting.size() && waiting.size() < kMostTensors; ++i) {
    for (const std::uint32_t op : golden.tensors[waiting[i]].readers) {
      if (!is_of_norm(golden.op(op).kind)) continue;
      std::uint32_t scale = kNoOp;
      const bool follows = std::ranges::all_of(golden.ops[op].inputs, [&](std::uint32_t input) {
        if (golden_roots[input] != kNoOp) scale = golden_roots[input];
        return golden_roots[input] != kNoOp || derived.contains(input);
      });
      if (!follows) continue;
      if (scale != kNoOp && golden.tensors[scale].print.count == golden.tensors[own].print.count) {
        if (rounded_numbers(golden.tensors[scale].print) == rounded_numbers(golden.tensors[own].print))
          return std::nullopt;
        if (!theirs) theirs = std::string(golden.name_of(scale));
        continue;
      }
      for (const std::uint32_t output : golden.ops[op].outputs) {
        if (derived.insert(output).second) waiting.push_back(output);
      }
    }
  }
  return theirs;
}

bool reads_what_follows_from(const Pool& golden, std::uint32_t norm, std::uint32_t weight) {
  constexpr std::size_t kMostTensors = 16;
  const RoundedNumbers wanted = rounded_numbers(golden.tensors[weight].print);
  std::vector<std::uint32_t> waiting;
  for (const std::uint32_t input : golden.ops[norm].inputs) {
    if (golden.tensors[input].print.count == golden.tensors[weight].print.count) waiting.push_back(input);
  }
  for (std::size_t i = 0; i < waiting.size() && i < kMostTensors; ++i) {
    const std::uint32_t maker = golden.tensors[waiting[i]].op;
    if (maker == kNoOp) continue;
    for (const std::uint32_t input : golden.ops[maker].inputs) {
      if (rounded_numbers(golden.tensors[input].print) == wanted) return true;
      if (is_of_norm(golden.op(maker).kind)) waiting.push_back(input);
    }
  }
  return false;
}

}  // namespace sonde
