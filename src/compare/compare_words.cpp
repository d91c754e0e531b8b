#include "compare/compare_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compare/factor.h"
#include "sonde/tensor.h"

namespace sonde {
namespace {

std::string number(double value) { return fmt::format("{:.6g}", value); }
std::string rough(double value) { return fmt::format("{:.3g}", value); }

std::string worst_text(const TensorDifference& difference) {
  if (difference.by != ComparedBy::values) return "";
  return fmt::format(" at {}: {}, golden {}", place_text(difference.worst_index, difference.shape),
                     number(difference.worst_value), number(difference.worst_golden));
}

std::string non_finite_text(const TensorDifference& difference) {
  if (difference.by == ComparedBy::statistics) {
    return fmt::format("NaN or infinity in {} elements, golden in {}", difference.non_finite,
                       difference.golden_non_finite);
  }
  const PairSums& sums = difference.sums;
  const auto side = [](std::uint64_t nan, std::uint64_t positive, std::uint64_t negative) {
    return fmt::format("{} NaN, {} inf, {} -inf", nan, positive, negative);
  };
  return fmt::format("{} of {} elements are NaN or infinite on one side only ({}; golden {})",
                     difference.different_non_finite, difference.count,
                     side(sums.nan_count, sums.positive_inf_count, sums.negative_inf_count),
                     side(sums.golden_nan_count, sums.golden_positive_inf_count, sums.golden_negative_inf_count));
}

using IsNamed = bool (*)(const Attribute&, const Attribute&);

std::vector<std::string> apart_where(const CatalogOp& target, const CatalogOp& golden, IsNamed is_named) {
  std::vector<std::string> apart;
  if (target.attributes == nullptr || golden.attributes == nullptr || target.op_type != golden.op_type) return apart;
  for (const Attribute& attribute : *target.attributes) {
    const auto other = std::ranges::find(*golden.attributes, attribute.name, &Attribute::name);
    if (other == golden.attributes->end() || *other == attribute || !is_named(attribute, *other)) continue;
    if (attribute.name == kFusedKernel) continue;  // a name that the compiler chose
    apart.push_back(fmt::format("{}={}, golden {}", attribute.name, text_of(attribute), text_of(*other)));
  }
  return apart;
}

}  // namespace

std::string place_text(std::uint64_t index, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> place(shape.size(), 0);
  for (std::size_t d = shape.size(); d-- > 0;) {
    const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(shape[d], 1));
    place[d] = static_cast<std::int64_t>(index % size);
    index /= size;
  }
  return shape_text(place, '(', ')');
}

std::string difference_text(FindingKind kind, const ComparedTensor& tensor) {
  const TensorDifference& difference = *tensor.difference;
  if (!difference.same_shape) {
    return fmt::format("gives {}, golden {}", shape_text(difference.shape, '(', ')'),
                       shape_text(difference.golden_shape, '(', ')'));
  }
  if (difference.by == ComparedBy::checksum)
    return "checksums differ; the dumps hold no values, so the error is unknown";
  if (difference.different_non_finite > 0) return non_finite_text(difference);
  if (kind == FindingKind::type) {
    return fmt::format("gives {}, golden {}", info(difference.dtype).lower, info(difference.golden_dtype).lower);
  }
  const bool lower = difference.by == ComparedBy::statistics;
  std::string text = fmt::format("relative error {}{}, max error {}{}", lower ? "at least " : "",
                                 rough(difference.relative()), rough(difference.max_error), worst_text(difference));
  if (const std::optional<double> factor = factor_between(difference)) {
    const bool is_gradient = tensor.target != nullptr && tensor.target->parameter.ends_with(".grad");
    text += fmt::format(", {} the golden {}", factor_text(*factor, difference), is_gradient ? "gradient" : "one");
  }
  if (kind != FindingKind::op) return text;
  const Allowance& allowance = tensor.allowance;
  text += fmt::format("; rounding explains {}", rough(allowance.rounding.max));
  if (allowance.propagated.max > 0)
    text += fmt::format(", its inputs explain {} more", rough(allowance.propagated.max));
  return text;
}

std::string axes_text(const TensorDifference& difference) {
  const std::vector<std::size_t>& axes = difference.axes;
  if (axes.empty()) return "";
  if (axes.size() == 2) return "the golden one is transposed";
  if (axes == std::vector<std::size_t>{0, 3, 1, 2}) return "NCHW, the golden one NHWC";
  if (axes == std::vector<std::size_t>{0, 2, 3, 1}) return "NHWC, the golden one NCHW";
  std::string list;
  for (const std::size_t axis : axes) list += (list.empty() ? "" : ",") + std::to_string(axis);
  return "the golden one with its axes in the order " + list;
}

std::vector<std::string> attributes_apart(const CatalogOp& target, const CatalogOp& golden) {
  return apart_where(target, golden, [](const Attribute&, const Attribute&) { return true; });
}

std::vector<std::string> numbers_apart(const CatalogOp& target, const CatalogOp& golden) {
  return apart_where(target, golden, [](const Attribute& a, const Attribute& b) {
    if (a.kind == AttributeKind::boolean || a.kind == AttributeKind::text) return a.kind == b.kind;
    if (a.reals.size() != b.reals.size() || a.reals.empty()) return false;
    for (std::size_t i = 0; i < a.reals.size(); ++i) {
      // The two programs may compute the number in another order, and round it differently.
      if (std::abs(a.reals[i] - b.reals[i]) > 1e-6 * std::abs(b.reals[i])) return true;
    }
    return false;
  });
}

}  // namespace sonde
