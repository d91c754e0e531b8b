#include "ask/relations/order_by_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "ask/relations/element_order.h"
#include "ask/relations/standings.h"
#include "ask/relations/verify.h"
#include "ask/relations/views.h"
#include "read/measure/values.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

// A product of rows of data with each row of a weight.
struct Product {
  std::uint32_t op, data, weight;
  std::size_t width = 0;          // elements of a row
  bool weight_is_turned = false;  // its rows are columns
};

// Multiplications that are tried for one product.
constexpr std::size_t kMostWork = 1 << 24;

std::optional<Product> product_of(const Pool& target, const RelationJudgement& judgement, std::uint32_t op,
                                  const std::vector<std::uint32_t>& roots) {
  const PoolOp& own = target.ops[op];
  if (target.op(op).kind != OpKind::contraction || own.outputs.size() != 1) return std::nullopt;
  if (judgement.standings[own.outputs[0]] != Standing::alone) return std::nullopt;
  Product found{.op = op, .data = kNoOp, .weight = kNoOp};
  for (const std::uint32_t input : own.inputs) {
    if (roots[input] == kNoOp) {
      found.data = input;
    } else if (target.tensors[roots[input]].shape.size() == 2) {
      found.weight = roots[input];
    }
  }
  if (found.data == kNoOp || found.weight == kNoOp || target.tensors[found.data].shape.empty()) return std::nullopt;
  const Relation& relation = judgement.relations[found.weight];
  if (!relation.is_whole() || relation.weak || is_bad(judgement.standings[found.weight])) return std::nullopt;
  const std::vector<std::int64_t>& shape = target.tensors[found.weight].shape;
  const std::int64_t width = target.tensors[found.data].shape.back();
  if (shape[0] != width && shape[1] != width) return std::nullopt;
  found.weight_is_turned = shape[1] != width;
  found.width = static_cast<std::size_t>(width);
  return found;
}

// Of data by the weight with these elements.
TensorPrint print_of_product(const Product& product, const std::vector<double>& data,
                             const std::vector<double>& weight) {
  const std::size_t rows = data.size() / product.width, columns = weight.size() / product.width;
  Computed result;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (std::size_t i = 0; i < product.width; ++i) {
        const std::size_t at = product.weight_is_turned ? i * columns + column : column * product.width + i;
        sum += data[row * product.width + i] * weight[at];
      }
      result.values.push_back(sum);
    }
  }
  result.shape = {static_cast<std::int64_t>(result.values.size())};
  result.strides = {1};
  return print_of(result.view(), result.shape, false);
}

// `as_made`: of the target's own product. What is as near to that is explained by no order.
bool is_missed_result(const Pool& golden, const RelationJudgement& judgement, const TensorPrint& print,
                      const TensorPrint& as_made) {
  constexpr double kTolerance = 1e-4;
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& own = golden.tensors[i];
    if (own.op == kNoOp || judgement.met[i] || own.print.count != print.count || own.print.proves_nothing()) continue;
    if (agree(print, own.print, kTolerance) && !agree(as_made, own.print, kTolerance)) return true;
  }
  return false;
}

bool is_golden_in_another_order(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                const Product& product) {
  const std::uint32_t other = judgement.relations[product.weight].golden();
  const PoolValues x = target.values_of(product.data), y = golden.values_of(other);
  if (!x || !y) return false;
  const auto count = static_cast<std::size_t>(golden.tensors[other].print.count);
  std::vector<std::vector<std::size_t>> orders = orders_of(golden.tensors[other].shape.size());
  const std::size_t work = target.tensors[product.data].print.count * (count / product.width) * (orders.size() + 1);
  if (work > kMostWork) return false;
  const std::vector<double> data = all_values(x.view());
  const TensorPrint& as_made = target.tensors[target.ops[product.op].outputs[0]].print;
  orders.insert(orders.begin(), std::vector<std::size_t>{});
  return std::ranges::any_of(orders, [&](const std::vector<std::size_t>& order) {
    PartView turned(y.view());
    if (!order.empty()) turned.permute(order);
    std::vector<double> weight(count);
    for (std::size_t i = 0; i < count; ++i) weight[i] = turned.at(static_cast<std::int64_t>(i));
    return is_missed_result(golden, judgement, print_of_product(product, data, weight), as_made);
  });
}

// The weight has its elements as the golden one, and the program puts those of the data in an order in which the golden
// run does not have them, as patches that it cuts; kNoOp: it does not.
std::uint32_t mover_of_data(const Pool& target, const RelationJudgement& judgement, const Product& product) {
  const bool is_golden_data =
      is_surely_golden(judgement, product.data) && judgement.relations[product.data].kind == RelationKind::same;
  if (judgement.relations[product.weight].kind != RelationKind::same || is_golden_data) return kNoOp;
  const std::optional<ElementOrder> order = element_order_of(target, product.data);
  return order && !std::ranges::is_sorted(order->elements) ? order->first : kNoOp;
}

}  // namespace

std::optional<Culprit> weight_in_wrong_order(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                             const std::vector<std::uint32_t>& roots) {
  for (const std::uint32_t op : judgement.target.ops) {
    const std::optional<Product> product = product_of(target, judgement, op, roots);
    if (!product || !is_golden_in_another_order(target, golden, judgement, *product)) continue;
    const std::uint32_t other = judgement.relations[product->weight].golden();
    if (const std::uint32_t mover = mover_of_data(target, judgement, *product); mover != kNoOp) {
      return Culprit{.op = mover,
                     .golden = other,
                     .uncertain = true,
                     .was_lost = true,
                     .what = fmt::format("gives data in another order than that of golden {}, which the target has as "
                                         "it is: in one of the others the product is golden",
                                         golden.name_of(other))};
    }
    return Culprit{.op = op,
                   .weight = product->weight,
                   .golden = other,
                   .uncertain = true,
                   .was_lost = true,
                   .what = fmt::format(
                       "has the elements of golden {} in another order than that of the data: in one of the others "
                       "the product is golden",
                       golden.name_of(other))};
  }
  return std::nullopt;
}

}  // namespace sonde
