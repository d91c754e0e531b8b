#include "ask/relations/order_apart.h"

#include <fmt/format.h>

#include <algorithm>

#include "ask/compare/compare_words.h"
#include "ask/relations/element_order.h"
#include "ask/relations/standings.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

bool exchanges_equal_axes(const Relation& relation, const std::vector<std::int64_t>& shape) {
  for (std::size_t i = 0; i < relation.order.size(); ++i) {
    const std::size_t other = relation.order[i];
    if (other == i || other >= relation.order.size() || relation.order[other] != i) continue;
    if (other < shape.size() && i < shape.size() && shape[i] == shape[other]) return true;
  }
  return false;
}

class Orders {
 public:
  Orders(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target), golden_(golden), judgement_(judgement) {}

  std::optional<NumberApart> find(std::uint32_t op) const {
    for (const std::uint32_t input : target_.ops[op].inputs) {
      if (!is_surely_golden(judgement_, input) || target_.tensors[input].op == kNoOp) continue;
      const std::optional<ElementOrder> own = element_order_of(target_, input);
      if (!own || own->first == kNoOp || !is_surely_golden(judgement_, own->root)) continue;
      const std::uint32_t reader = reader_in_another_order(op, input, *own);
      const std::uint32_t mover = reader == kNoOp ? kNoOp : last_mover(input, *own);
      if (mover == kNoOp) continue;
      const CatalogOp& other = golden_.catalog_op(reader);
      return NumberApart{mover, fmt::format("gives golden values in another order than that in which golden {} {} "
                                            "reads them",
                                            other.op_type, place_text(other))};
    }
    return std::nullopt;
  }

 private:
  // A golden operator of the same kind that reads the tensor, if none reads it in this order; kNoOp: one does, or it is
  // not known.
  std::uint32_t reader_in_another_order(std::uint32_t op, std::uint32_t input, const ElementOrder& own) const {
    const RoundedNumbers numbers = rounded_numbers(golden_.tensors[judgement_.relations[input].golden()].print);
    std::uint32_t found = kNoOp;
    for (const std::uint32_t reader : judgement_.golden.ops) {
      if (!OpFamilies::same(*target_.op(op).family, *golden_.op(reader).family)) continue;
      for (const std::uint32_t read : golden_.ops[reader].inputs) {
        if (rounded_numbers(golden_.tensors[read].print) != numbers) continue;
        const std::optional<ElementOrder> other = element_order_of(golden_, read);
        if (!other || !is_of_one_root(own.root, other->root) || own.elements == other->elements) return kNoOp;
        if (found == kNoOp) found = reader;
      }
    }
    return found;
  }

  bool is_of_one_root(std::uint32_t root, std::uint32_t golden_root) const {
    const PoolTensor &own = target_.tensors[root], &other = golden_.tensors[golden_root];
    const std::uint32_t related = judgement_.relations[root].golden();
    return own.shape == other.shape && rounded_numbers(golden_.tensors[related].print) == rounded_numbers(other.print);
  }

  std::uint32_t last_mover(std::uint32_t tensor, const ElementOrder& own) const {
    for (std::uint32_t at = tensor; at != own.root;) {
      const std::uint32_t maker = target_.tensors[at].op;
      at = target_.ops[maker].inputs[0];
      const std::optional<ElementOrder> before = element_order_of(target_, at);
      if (!before || before->elements != own.elements) return maker;
    }
    return kNoOp;
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
};

}  // namespace

bool reads_exchanged(const Pool& target, const Pool& golden, const RelationJudgement& judgement, std::uint32_t op) {
  return std::ranges::any_of(target.ops[op].inputs, [&](std::uint32_t input) {
    const Relation& relation = judgement.relations[input];
    return relation.kind == RelationKind::permuted && target.tensors[input].op != kNoOp &&
           exchanges_equal_axes(relation, golden.tensors[relation.golden()].shape);
  });
}

std::optional<NumberApart> order_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                       std::uint32_t op) {
  // A product reads its weight in the order of its own: `linear` transposes it.
  if (target.op(op).kind != OpKind::elementwise || (target.has_values() && golden.has_values())) return std::nullopt;
  return Orders(target, golden, judgement).find(op);
}

}  // namespace sonde
