#include "ask/relations/exchanged_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "ask/relations/standings.h"
#include "ask/relations/weights_by_name.h"
#include "read/operators/op_family.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// A product with one weight, as a whole.
struct Product {
  std::uint32_t op = kNoOp, weight = 0, data = 0;
};

class Exchanged {
 public:
  Exchanged(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
            const std::vector<std::uint32_t>& roots)
      : target_(target), golden_(golden), judgement_(judgement), roots_(roots) {}

  std::optional<Culprit> find(std::uint32_t op) const {
    for (const std::uint32_t input : target_.ops[op].inputs) {
      const Product own = product_of(input);
      if (own.op == kNoOp) continue;
      const RoundedNumbers numbers = golden_numbers(input);
      for (const std::uint32_t other : judgement_.golden.ops) {
        if (!OpFamilies::same(*target_.op(op).family, *golden_.op(other).family)) continue;
        if (golden_.ops[other].inputs.size() != target_.ops[op].inputs.size()) continue;
        if (reads(other, numbers)) return std::nullopt;  // one reads it, too
        for (const std::uint32_t read : golden_.ops[other].inputs) {
          const Product exchanged = product_with(rounded_numbers(golden_.tensors[read].print), own);
          if (exchanged.op != kNoOp) return culprit_of(own, exchanged, other);
        }
      }
    }
    return std::nullopt;
  }

 private:
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
  Product product_of(std::uint32_t tensor) const {
    const std::uint32_t maker = target_.tensors[tensor].op;
    if (maker == kNoOp || target_.op(maker).kind != OpKind::contraction || !is_surely_golden(judgement_, tensor))
      return {};
    Product found{.op = maker};
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
    return weights == 1 && data == 1 ? found : Product{};
  }

  // Another product of the same data that is golden and has these numbers.
  Product product_with(const RoundedNumbers& numbers, const Product& own) const {
    const RoundedNumbers data = rounded_numbers(target_.tensors[own.data].print);
    for (std::uint32_t op = 0; op < target_.ops.size(); ++op) {
      for (const std::uint32_t output : target_.ops[op].outputs) {
        const Product other = product_of(output);
        if (other.op == kNoOp || rounded_numbers(target_.tensors[other.data].print) != data) continue;
        if (other.weight == own.weight || golden_numbers(output) != numbers) continue;
        if (is_named_right(own.weight) || is_named_right(other.weight)) continue;
        if (target_.tensors[other.weight].shape == target_.tensors[own.weight].shape) return other;
      }
    }
    return {};
  }

  Culprit culprit_of(const Product& own, const Product& other, std::uint32_t golden_op) const {
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
                                        std::uint32_t op, const std::vector<std::uint32_t>& roots) {
  return Exchanged(target, golden, judgement, roots).find(op);
}

}  // namespace sonde
