#include "ask/relations/exchanged_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "ask/compare/compare_words.h"
#include "ask/relations/standings.h"
#include "ask/relations/weights_by_name.h"
#include "read/operators/op_family.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// A product with one weight, as a whole.
struct WeightProduct {
  std::uint32_t op = kNoOp, weight = 0, data = 0;
};

class ExchangedWeights {
 public:
  ExchangedWeights(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                   const std::vector<std::uint32_t>& roots)
      : target_(target), golden_(golden), judgement_(judgement), roots_(roots) {}

  std::optional<Culprit> find(std::uint32_t op, const std::vector<std::uint32_t>& group) const {
    constexpr std::size_t kMostOfGroup = 24;
    for (std::size_t i = 0; i < std::min(group.size(), kMostOfGroup); ++i) {
      if (std::optional<Culprit> part = part_in_place_of_another(group[i])) return part;
    }
    for (const std::uint32_t input : target_.ops[op].inputs) {
      const WeightProduct own = product_of(input);
      if (own.op == kNoOp) continue;
      const RoundedNumbers numbers = golden_numbers(input);
      for (const std::uint32_t other : judgement_.golden.ops) {
        if (!OpFamilies::same(*target_.op(op).family, *golden_.op(other).family)) continue;
        if (golden_.ops[other].inputs.size() != target_.ops[op].inputs.size()) continue;
        if (reads(other, numbers)) return std::nullopt;  // one reads it, too
        for (const std::uint32_t read : golden_.ops[other].inputs) {
          const WeightProduct exchanged = product_with(rounded_numbers(golden_.tensors[read].print), own);
          if (exchanged.op != kNoOp) return culprit_of(own, exchanged, other);
        }
      }
    }
    return std::nullopt;
  }

 private:
  // Of a weight that is joined of golden ones: the operator reads the golden product with one of these, where golden
  // operators of its kind read those with others, and none reads this one.
  std::optional<Culprit> part_in_place_of_another(std::uint32_t op) const {
    for (const std::uint32_t input : target_.ops[op].inputs) {
      std::uint32_t part = kNoOp;
      const std::uint32_t product = product_before(input, part);
      const std::uint32_t weight = product == kNoOp || part == kNoOp ? kNoOp : joined_weight_of(product);
      if (weight == kNoOp) continue;
      const RoundedNumbers numbers = golden_numbers(part);
      // All of a golden product: rows of one that is fused may be those of any part.
      const std::uint32_t own = golden_product_before(judgement_.relations[part].golden());
      if (own == kNoOp || rounded_numbers(golden_.tensors[own].print) != numbers) continue;
      std::uint32_t reader = kNoOp, read = 0;
      bool is_read = false;
      for (std::uint32_t other = 0; other < golden_.ops.size(); ++other) {
        if (!OpFamilies::same(*target_.op(op).family, *golden_.op(other).family)) continue;
        for (const std::uint32_t theirs : golden_.ops[other].inputs) {
          const std::uint32_t root = golden_product_before(theirs);
          if (root == kNoOp) continue;
          is_read = is_read || rounded_numbers(golden_.tensors[root].print) == numbers;
          if (reader != kNoOp || !judgement_.golden.has[other] || !is_product_of_part(root, weight)) continue;
          reader = other;
          read = root;
        }
      }
      if (is_read || reader == kNoOp) continue;
      return culprit_of_part(op, weight, part, reader, read);
    }
    return std::nullopt;
  }

  Culprit culprit_of_part(std::uint32_t op, std::uint32_t weight, std::uint32_t part, std::uint32_t reader,
                          std::uint32_t read) const {
    const auto maker_of = [&](std::uint32_t tensor) { return golden_.catalog_op(golden_.tensors[tensor].op).op_name; };
    const CatalogOp& other = golden_.catalog_op(reader);
    return {.op = op,
            .weight = weight,
            .golden = judgement_.relations[weight].golden(),
            .uncertain = true,
            .was_lost = true,
            .what = fmt::format("is {}: {} reads the result of golden {}, and golden {} {} that of {}: the parts are "
                                "exchanged, or they are read so",
                                relation_text(judgement_.relations[weight], golden_), target_.catalog_op(op).op_type,
                                maker_of(judgement_.relations[part].golden()), other.op_type, place_text(other),
                                maker_of(read))};
  }

  // Back to the product that the tensor was moved from. `part`: the last tensor on the way that is a golden one.
  std::uint32_t product_before(std::uint32_t tensor, std::uint32_t& part) const {
    constexpr int kMostMoves = 12;
    for (int i = 0; i < kMostMoves; ++i) {
      const std::uint32_t maker = target_.tensors[tensor].op;
      if (maker == kNoOp) return kNoOp;
      if (target_.op(maker).kind == OpKind::contraction) return maker;
      if (is_of_one_golden(tensor) && !is_inside(tensor)) part = tensor;
      if (!moves_or_casts(target_.op(maker).kind) || target_.ops[maker].inputs.size() != 1) return kNoOp;
      tensor = target_.ops[maker].inputs[0];
    }
    return kNoOp;
  }

  // All of a golden tensor, or its rows of some tokens.
  bool is_of_one_golden(std::uint32_t tensor) const {
    const Relation& relation = judgement_.relations[tensor];
    const bool is_part = relation.kind == RelationKind::cut && relation.parts.size() == 1 && !relation.weak;
    return is_surely_golden(judgement_, tensor) || (is_part && !is_bad(judgement_.standings[tensor]));
  }

  bool is_inside(std::uint32_t tensor) const {
    const PoolTensor& golden = golden_.tensors[judgement_.relations[tensor].golden()];
    return golden.computed != nullptr || golden.op == kNoOp;
  }

  std::uint32_t golden_product_before(std::uint32_t tensor) const {
    constexpr int kMostMoves = 12;
    for (int i = 0; i < kMostMoves; ++i) {
      const std::uint32_t maker = golden_.tensors[tensor].op;
      if (maker == kNoOp) return kNoOp;
      if (golden_.op(maker).kind == OpKind::contraction) return tensor;
      if (!moves_or_casts(golden_.op(maker).kind) || golden_.ops[maker].inputs.size() != 1) return kNoOp;
      tensor = golden_.ops[maker].inputs[0];
    }
    return kNoOp;
  }

  // A matrix of several golden ones.
  std::uint32_t joined_weight_of(std::uint32_t product) const {
    for (const std::uint32_t input : target_.ops[product].inputs) {
      const std::uint32_t root = roots_[input];
      if (root == kNoOp || target_.tensors[root].shape.size() < 2) continue;
      const Relation& relation = judgement_.relations[root];
      if (relation.kind == RelationKind::joined && relation.parts.size() > 1) return root;
    }
    return kNoOp;
  }

  bool is_product_of_part(std::uint32_t golden_result, std::uint32_t weight) const {
    const std::vector<std::uint32_t>& inputs = golden_.ops[golden_.tensors[golden_result].op].inputs;
    return std::ranges::any_of(judgement_.relations[weight].parts, [&](const RelationPart& part) {
      return std::ranges::any_of(inputs, [&](std::uint32_t input) {
        return rounded_numbers(golden_.tensors[input].print) == rounded_numbers(golden_.tensors[part.golden].print);
      });
    });
  }

  RoundedNumbers golden_numbers(std::uint32_t tensor) const {
    return rounded_numbers(golden_.tensors[judgement_.relations[tensor].golden()].print);
  }

  // Then the program reads the product where it should not.
  bool is_named_right(std::uint32_t weight) const {
    return is_named_as(target_, weight, golden_, judgement_.relations[weight].golden());
  }

  bool reads(std::uint32_t golden_op, const RoundedNumbers& numbers) const {
    return std::ranges::any_of(golden_.ops[golden_op].inputs, [&](std::uint32_t input) {
      return rounded_numbers(golden_.tensors[input].print) == numbers;
    });
  }

  // Of a tensor that is a golden one, and a product, with its bias or without.
  WeightProduct product_of(std::uint32_t tensor) const {
    const std::uint32_t maker = target_.tensors[tensor].op;
    if (maker == kNoOp || target_.op(maker).kind != OpKind::contraction || !is_surely_golden(judgement_, tensor))
      return {};
    WeightProduct found{.op = maker};
    std::size_t weights = 0, data = 0;
    for (const std::uint32_t input : target_.ops[maker].inputs) {
      const std::uint32_t root = roots_[input];
      if (root == kNoOp) {
        found.data = input;
        ++data;
      } else if (target_.tensors[root].shape.size() > 1 && is_surely_golden(judgement_, root)) {
        found.weight = root;
        ++weights;
      }
    }
    return weights == 1 && data == 1 ? found : WeightProduct{};
  }

  // Another product of the same data that is golden and has these numbers.
  WeightProduct product_with(const RoundedNumbers& numbers, const WeightProduct& own) const {
    const RoundedNumbers data = rounded_numbers(target_.tensors[own.data].print);
    for (std::uint32_t op = 0; op < target_.ops.size(); ++op) {
      for (const std::uint32_t output : target_.ops[op].outputs) {
        const WeightProduct other = product_of(output);
        if (other.op == kNoOp || rounded_numbers(target_.tensors[other.data].print) != data) continue;
        if (other.weight == own.weight || golden_numbers(output) != numbers) continue;
        if (is_named_right(own.weight) || is_named_right(other.weight)) continue;
        if (target_.tensors[other.weight].shape == target_.tensors[own.weight].shape) return other;
      }
    }
    return {};
  }

  Culprit culprit_of(const WeightProduct& own, const WeightProduct& other, std::uint32_t golden_op) const {
    const auto golden_name = [&](std::uint32_t weight) {
      return golden_.name_of(judgement_.relations[weight].golden());
    };
    const CatalogOp& reader = golden_.catalog_op(golden_op);
    return {.op = own.op,
            .weight = own.weight,
            .golden = judgement_.relations[own.weight].golden(),
            .uncertain = true,
            .was_lost = true,
            .what = fmt::format("is golden {}, and {} is golden {}, whose product golden {} {} reads: they are "
                                "exchanged, or their products are",
                                golden_name(own.weight), target_.tensors[other.weight].of.tensor->parameter,
                                golden_name(other.weight), reader.op_type, place_text(reader))};
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  const std::vector<std::uint32_t>& roots_;
};

}  // namespace

std::optional<Culprit> exchanged_weight(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                        std::uint32_t op, const std::vector<std::uint32_t>& group,
                                        const std::vector<std::uint32_t>& roots) {
  return ExchangedWeights(target, golden, judgement, roots).find(op, group);
}

}  // namespace sonde
