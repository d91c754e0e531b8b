#include "ask/relations/element_order.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <string_view>

#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

constexpr std::uint64_t kMostOrdered = 1 << 22;  // elements

// By axis of the result: the axis of the input. Empty: the operator keeps the order of the elements; nothing: unknown.
std::optional<std::vector<std::size_t>> order_of_axes(const CatalogOp& op, std::size_t axes) {
  constexpr std::array<std::string_view, 12> kViews = {"view",  "reshape", "unsafeview", "contiguous",
                                                       "clone", "flatten", "detach",     "unflatten",
                                                       "to",    "tocopy",  "unsqueeze",  "squeeze"};
  const std::string type = bare_type(op.op_type);
  if (std::ranges::find(kViews, type) != kViews.end()) return std::vector<std::size_t>{};
  std::vector<std::size_t> order(axes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto axis_at = [&](std::int64_t axis) {
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(axes) : axis);
  };
  if ((type == "t" || type == "numpyt") && axes == 2) {
    std::swap(order[0], order[1]);
    return order;
  }
  if (type == "transpose") {
    const std::optional<double> one = number_in(op, "dim0"), two = number_in(op, "dim1");
    if (!one || !two) return std::nullopt;
    const std::size_t a = axis_at(static_cast<std::int64_t>(*one)), b = axis_at(static_cast<std::int64_t>(*two));
    if (a >= axes || b >= axes) return std::nullopt;
    std::swap(order[a], order[b]);
    return order;
  }
  const Attribute* dims = type == "permute" ? attribute_of(op, "dims") : nullptr;
  if (dims == nullptr || dims->integers.size() != axes) return std::nullopt;
  for (std::size_t i = 0; i < axes; ++i) order[i] = axis_at(dims->integers[i]);
  const bool is_valid = std::ranges::all_of(order, [&](std::size_t axis) { return axis < axes; });
  return is_valid ? std::optional(order) : std::nullopt;
}

// `elements` of a tensor of that shape, after its axes were put into another order.
std::vector<std::int64_t> reordered(const std::vector<std::int64_t>& elements, const std::vector<std::int64_t>& shape,
                                    const std::vector<std::size_t>& order) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * static_cast<std::size_t>(shape[i]);
  std::vector<std::int64_t> result(elements.size());
  for (std::size_t flat = 0; flat < result.size(); ++flat) {
    std::size_t rest = flat, from = 0;
    for (std::size_t axis = order.size(); axis-- > 0;) {
      const auto size = static_cast<std::size_t>(shape[order[axis]]);
      from += rest % size * strides[order[axis]];
      rest /= size;
    }
    result[flat] = elements[from];
  }
  return result;
}

// Its result is the beginning: both programs look the same rows up.
bool looks_up_rows(const Pool& pool, std::uint32_t op) {
  return pool.is_type(op, "index") || pool.is_type(op, "embedding") || pool.is_type(op, "indexselect");
}

}  // namespace

std::optional<ElementOrder> element_order_of(const Pool& pool, std::uint32_t tensor) {
  if (pool.tensors[tensor].print.count > kMostOrdered) return std::nullopt;
  std::vector<std::uint32_t> movers;
  ElementOrder found{.root = tensor};
  while (true) {
    const std::uint32_t maker = pool.tensors[found.root].op;
    if (maker == kNoOp || !moves_or_casts(pool.op(maker).kind) || looks_up_rows(pool, maker)) break;
    if (pool.ops[maker].inputs.size() != 1 || pool.ops[maker].outputs.size() != 1) return std::nullopt;
    movers.push_back(maker);
    found.root = pool.ops[maker].inputs[0];
  }
  std::int64_t count = 1;
  for (const std::int64_t size : pool.tensors[found.root].whole_shape()) count *= size;
  if (is_complex(pool.tensors[found.root].dtype())) return std::nullopt;  // `view_as_real` has an axis more
  found.elements.resize(static_cast<std::size_t>(count));
  std::iota(found.elements.begin(), found.elements.end(), std::int64_t{0});
  for (const std::uint32_t mover : std::vector(movers.rbegin(), movers.rend())) {
    const std::vector<std::int64_t> shape = pool.tensors[pool.ops[mover].inputs[0]].whole_shape();
    const auto order = order_of_axes(pool.catalog_op(mover), shape.size());
    if (!order) return std::nullopt;
    if (order->empty()) continue;
    found.elements = reordered(found.elements, shape, *order);
    if (found.first == kNoOp && !std::ranges::is_sorted(found.elements)) found.first = mover;
  }
  if (found.first == kNoOp && !movers.empty()) found.first = movers.back();
  return found;
}

bool puts_in_order(const Pool& pool, std::uint32_t op) {
  constexpr std::array<std::string_view, 6> kTypes = {"cat", "concat", "concatenate", "stack", "roll", "flip"};
  return std::ranges::any_of(kTypes, [&](std::string_view type) { return pool.is_type(op, type); });
}

}  // namespace sonde
