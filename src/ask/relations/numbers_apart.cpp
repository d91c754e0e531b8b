#include "ask/relations/numbers_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

// Numbers that say how something is computed: no whole ones, such as axes and signs, and none that hide.
std::vector<double> telling_numbers(const CompareOp& op) {
  std::vector<double> numbers;
  const auto add = [&](double number) {
    if (number != std::floor(number) && std::isfinite(number)) numbers.push_back(std::abs(number));
  };
  if (const std::optional<double> number = number_read(op)) add(*number);
  if (op.op->attributes == nullptr) return numbers;
  for (const Attribute& attribute : *op.op->attributes) std::ranges::for_each(attribute.reals, add);
  return numbers;
}

// The same, its reciprocal, its square, its root or what it lacks of 1.
bool are_akin(double a, double b) {
  const auto is = [&](double number) { return std::abs(a - number) <= 1e-4 * std::abs(number); };
  return is(b) || is(1 / b) || is(b * b) || is(std::sqrt(b)) || is(1 / (b * b)) || is(1 / std::sqrt(b)) || is(1 - b);
}

bool is_akin_to_any(double number, const std::vector<double>& numbers) {
  return std::ranges::any_of(numbers, [&](double other) { return are_akin(number, other); });
}

bool is_unbiased(const CatalogOp& op) {
  return number_in(op, "unbiased").value_or(0) != 0 || number_in(op, "correction").value_or(0) != 0;
}

// Of an attention.
std::optional<double> scale_of(const Pool& golden, std::uint32_t op) {
  if (!golden.is_type(op, "scaleddotproductattention") || golden.ops[op].inputs.empty()) return std::nullopt;
  const std::vector<std::int64_t>& query = golden.tensors[golden.ops[op].inputs[0]].shape;
  if (query.empty()) return std::nullopt;
  return number_in(golden.catalog_op(op), "scale").value_or(1 / std::sqrt(static_cast<double>(query.back())));
}

}  // namespace

bool scales_by(const Pool& golden, const std::vector<std::uint32_t>& golden_ops, double number) {
  return std::ranges::any_of(golden_ops, [&](std::uint32_t op) {
    const auto is_it = [&](double other) { return std::abs(number - other) <= 1e-4 * std::abs(other); };
    const std::optional<double> factor = number_multiplied_by(golden.op(op)), scale = scale_of(golden, op);
    // Queries and keys may each be scaled by the root.
    return (factor && (is_it(*factor) || is_it(std::sqrt(*factor)))) ||
           (scale && (is_it(*scale) || is_it(std::sqrt(*scale))));
  });
}

std::optional<NumberApart> NumbersApart::of_attention(const std::vector<std::uint32_t>& ops) const {
  const auto attention = std::ranges::find_if(
      golden_ops_, [&](std::uint32_t op) { return golden_.is_type(op, "scaleddotproductattention"); });
  if (attention == golden_ops_.end() || golden_.ops[*attention].inputs.empty()) return std::nullopt;
  const std::vector<std::int64_t>& query = golden_.tensors[golden_.ops[*attention].inputs[0]].shape;
  if (query.empty()) return std::nullopt;
  const double scale = *scale_of(golden_, *attention);
  const auto width = static_cast<std::uint64_t>(query.back());
  for (const std::uint32_t op : ops) {
    // Frequencies of positions are fewer.
    if (target_.ops[op].outputs.empty() || target_.tensors[target_.ops[op].outputs[0]].print.count <= width) continue;
    std::optional<double> factor = number_multiplied_by(target_.op(op));
    if (target_.is_type(op, "baddbmm")) factor = number_in(target_.catalog_op(op), "alpha");
    const auto is_near = [&](double number) { return std::abs(*factor - number) <= 1e-4 * std::abs(number); };
    constexpr double kHidden = -1e3;  // a mask is multiplied by less
    if (factor && *factor > kHidden && !is_near(scale) && !is_near(std::sqrt(scale)) &&
        !scales_by(golden_, golden_ops_, *factor)) {
      return NumberApart{op, fmt::format("scales by {:.4g}, and the golden attention by {:.4g}", *factor, scale)};
    }
    const bool is_softmax = target_.is_type(op, "softmax");
    const std::optional<double> axis = is_softmax ? number_in(target_.catalog_op(op), "dim") : std::nullopt;
    const auto axes = target_.tensors[target_.ops[op].outputs.front()].of.tensor->shape.size();
    if (axis && *axis != -1 && *axis != static_cast<double>(axes) - 1) {
      return NumberApart{op, fmt::format("runs along axis {}, and that of the golden attention along the last", *axis)};
    }
  }
  return std::nullopt;
}

// Beside its norms, such as to a divisor.
bool NumbersApart::golden_adds(double number) const {
  return std::ranges::any_of(golden_ops_, [&](std::uint32_t op) {
    const std::optional<double> own = golden_.is_type(op, "add") ? number_read(golden_.op(op)) : std::nullopt;
    return own && std::abs(*own - number) <= 1e-3 * std::abs(number);
  });
}

std::optional<NumberApart> NumbersApart::of_one(const std::vector<std::uint32_t>& ops) const {
  std::vector<double> theirs, mine;
  for (const std::uint32_t op : golden_ops_) {
    const std::vector<double> some = telling_numbers(golden_.op(op));
    theirs.insert(theirs.end(), some.begin(), some.end());
    if (const std::optional<double> scale = scale_of(golden_, op)) theirs.push_back(*scale);
  }
  std::optional<std::pair<std::uint32_t, double>> found;
  for (const std::uint32_t op : ops) {
    for (const double number : telling_numbers(target_.op(op))) {
      mine.push_back(number);
      if (is_akin_to_any(number, theirs)) continue;
      if (found && (found->first != op || found->second != number)) return std::nullopt;
      found = {op, number};
    }
  }
  if (!found) return std::nullopt;
  // Smaller ones, which keep a divisor from zero, are left to of_norm().
  constexpr double kLeast = 1e-3;
  // Nor elsewhere: only the line itself may have it, in another layer.
  for (std::uint32_t op = 0; op < target_.ops.size(); ++op) {
    if (line_of(target_.catalog_op(op)) == line_of(target_.catalog_op(found->first))) continue;
    const std::vector<double> some = telling_numbers(target_.op(op));
    mine.insert(mine.end(), some.begin(), some.end());
  }
  const auto is_alone = [&](double number) { return number > kLeast && !is_akin_to_any(number, mine); };
  const auto other = std::ranges::find_if(theirs, is_alone);
  if (other == theirs.end()) return std::nullopt;
  return NumberApart{found->first,
                     fmt::format("is called with {:.4g}, and the golden run with {:.4g}", found->second, *other)};
}

std::optional<NumberApart> NumbersApart::of_norm(const std::vector<std::uint32_t>& ops) const {
  std::optional<double> epsilon, size;
  for (const std::uint32_t op : golden_ops_) {
    if (golden_.op(op).kind != OpKind::normalization) continue;
    const std::optional<double> own = number_in(golden_.catalog_op(op), "eps");
    if (!own) continue;
    if (epsilon && *epsilon != *own) return std::nullopt;  // which one is meant is not known
    epsilon = own;
    size = number_in(golden_.catalog_op(op), "normalized_shape");
  }
  if (!epsilon) return std::nullopt;
  for (const std::uint32_t op : ops) {
    const std::string type = bare_type(target_.catalog_op(op).op_type);
    const std::optional<double> number = number_read(target_.op(op));
    constexpr double kMostEpsilon = 0.2;
    const bool adds_epsilon = type == "add" && number && *number > 0 && *number < kMostEpsilon;
    if (adds_epsilon && std::abs(*number - *epsilon) > 1e-3 * *epsilon && !golden_adds(*number)) {
      return NumberApart{op, fmt::format("adds {:.4g}, and the golden norm {:.4g}", *number, *epsilon)};
    }
    if (type == "div" && number && size && *number == *size - 1) {
      return NumberApart{op, fmt::format("divides by {}, and the golden norm by {}", *number, *size)};
    }
    if ((type == "var" || type == "std") && is_unbiased(target_.catalog_op(op))) {
      return NumberApart{op, "divides by one less than the number of elements, and the golden norm by that number"};
    }
  }
  return std::nullopt;
}

}  // namespace sonde
