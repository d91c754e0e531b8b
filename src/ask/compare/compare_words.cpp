#include "ask/compare/compare_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ask/compare/factor.h"
#include "ground/model/gradient_name.h"
#include "ground/model/group_attributes.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_questions.h"
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

std::string largest_text(const TensorDifference& difference) {
  return fmt::format(", max error {}{}", rough(difference.max_error), worst_text(difference));
}

std::string allowance_text(const Allowance& allowance) {
  std::string text = fmt::format("; rounding explains {}", rough(allowance.rounding.max));
  if (allowance.propagated.max > 0) {
    text += fmt::format(", its inputs explain {} more", rough(allowance.propagated.max));
  }
  return text;
}

std::string non_finite_text(const TensorDifference& difference) {
  if (difference.by == ComparedBy::statistics) {
    return fmt::format("NaN or infinity in {} elements, golden in {}", difference.non_finite,
                       difference.golden_non_finite);
  }
  const PairSums& sums = difference.sums;
  const auto side = [](const NonFiniteCounts& counts) {
    return fmt::format("{} NaN, {} inf, {} -inf", counts.nan, counts.positive_inf, counts.negative_inf);
  };
  return fmt::format("{} of {} elements are NaN or infinite on one side only ({}; golden {})",
                     difference.different_non_finite, difference.count, side(sums.non_finite),
                     side(sums.golden_non_finite));
}

// Arguments that say where or in which form a result is kept. If they matter, its type or shape differs.
bool is_form(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "dtype",         "out_dtype",     "input_dtype",  "device",   "layout",        "pin_memory",
      "memory_format", "copy",          "non_blocking", "keepdim",  "keepdims",      "dim",
      "dims",          "axis",          "axes",         "dim0",     "dim1",          "start_dim",
      "end_dim",       "size",          "shape",        "implicit", "cudnn_enabled", "benchmark",
      "deterministic", "half_to_float", "fused",        "foreach",  "enable_gqa",    "normalized_shape",
      "stable",        "batch_first"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// Counted from the front: -1 of three is 2. Alone or as a list of one.
std::vector<std::int64_t> from_the_front(const Attribute& attribute, const CatalogOp& op) {
  std::vector<std::int64_t> places = attribute.integers;
  const auto first = std::ranges::find_if(op.tensors, [](const CatalogTensor& tensor) { return tensor.has_shape; });
  if (first == op.tensors.end()) return places;
  // A new dimension may also be behind the last one.
  const bool is_new = adds_dimension(op.op_type);
  for (std::int64_t& place : places) {
    if (place < 0) place += static_cast<std::int64_t>(first->shape.size()) + (is_new ? 1 : 0);
  }
  return places;
}

// The two programs may compute a number in another order, or in another type, and round it differently.
bool are_close(const std::vector<double>& a, const std::vector<double>& b) {
  return !a.empty() && std::ranges::equal(a, b, [](double left, double right) {
    const bool are_both_nan = std::isnan(left) && std::isnan(right);
    return left == right || are_both_nan || std::abs(left - right) <= 1e-6 * std::abs(right);
  });
}

// The same argument in another spelling.
bool means_the_same(const Attribute& a, const CatalogOp& op, const Attribute& b, const CatalogOp& other) {
  if (a == b || are_close(a.reals, b.reals)) return true;
  if (a.kind == AttributeKind::integer && b.kind == AttributeKind::real) {
    return static_cast<double>(a.integers[0]) == b.reals[0];
  }
  if (a.kind == AttributeKind::real && b.kind == AttributeKind::integer) return means_the_same(b, other, a, op);
  const std::string_view name = a.name;
  if (name.starts_with("dim") || name.starts_with("axis") || name == "axes" || name.ends_with("_dim")) {
    if (a.integers.empty() || b.integers.empty()) return false;
    std::vector<std::int64_t> left = from_the_front(a, op), right = from_the_front(b, other);
    // The order matters where dimensions are moved; a sum is over a set of them.
    if (!orders_dimensions(op.op_type)) {
      std::ranges::sort(left);
      std::ranges::sort(right);
    }
    return left == right;
  }
  return false;
}

bool has_ranks(const CatalogOp& op) { return attribute_of(op, kGroupRanks) != nullptr; }

// Names of groups are numbers, in the order in which a program makes them. Their ranks say which they are.
bool names_group(const Attribute& attribute) {
  return std::ranges::find(kGroupNames, attribute.name) != std::end(kGroupNames);
}

// Compiled code has a number of the program as the argument `other`, which other code wraps as a tensor. With that.
std::vector<Attribute> arguments_of(const CatalogOp& op) {
  std::vector<Attribute> arguments;
  if (op.attributes != nullptr) arguments = *op.attributes;
  if (std::ranges::find(arguments, kOtherNumber, &Attribute::name) != arguments.end()) return arguments;
  const auto wrapped = std::ranges::find_if(
      op.tensors, [](const CatalogTensor& tensor) { return tensor.is_input && tensor.constant.has_value(); });
  if (wrapped == op.tensors.end()) return arguments;
  Attribute number;
  number.name = kOtherNumber;
  number.kind = AttributeKind::real;
  number.reals = {*wrapped->constant};
  arguments.push_back(std::move(number));
  return arguments;
}

using IsNamed = bool (*)(const Attribute&, const Attribute&);

std::vector<std::string> apart_where(const CatalogOp& target, const CatalogOp& golden, IsNamed is_named) {
  std::vector<std::string> apart;
  if (target.op_type != golden.op_type) return apart;
  const std::vector<Attribute> others = arguments_of(golden);
  const bool is_wrapped =
      attribute_of(target, kOtherNumber) == nullptr && attribute_of(golden, kOtherNumber) == nullptr;
  for (const Attribute& attribute : arguments_of(target)) {
    const auto other = std::ranges::find(others, attribute.name, &Attribute::name);
    if (other == others.end() || !is_named(attribute, *other)) continue;
    if (is_wrapped && attribute.name == kOtherNumber) continue;  // two inputs, which are compared
    if (means_the_same(attribute, target, *other, golden)) continue;
    if (attribute.name == kFusedKernel) continue;  // a name that the compiler chose
    if (attribute.name == kCalledBy) continue;     // not an argument
    if (names_group(attribute) && has_ranks(target) && has_ranks(golden)) continue;
    apart.push_back(fmt::format("{}={}, golden {}", attribute.name, words_of(attribute), words_of(*other)));
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
    const bool is_read = kind == FindingKind::wiring && tensor.target != nullptr && tensor.target->is_input;
    return fmt::format("{} {}, golden {}", is_read ? "its shape is" : "gives", shape_text(difference.shape, '(', ')'),
                       shape_text(difference.golden_shape, '(', ')'));
  }
  if (difference.by == ComparedBy::checksum)
    return "checksums differ; the dumps hold no values, so the error is unknown";
  if (difference.different_non_finite > 0) return non_finite_text(difference);
  if (kind == FindingKind::type) {
    return fmt::format("gives {}, golden {}", info(difference.dtype).lower, info(difference.golden_dtype).lower);
  }
  const bool lower = difference.by == ComparedBy::statistics;
  std::string text = fmt::format("relative error {}{}{}", lower ? "at least " : "", rough(difference.relative()),
                                 largest_text(difference));
  if (const std::optional<double> factor = factor_between(difference)) {
    const bool is_gradient = tensor.target != nullptr && is_gradient_name(tensor.target->parameter);
    text += fmt::format(", {} the golden {}", factor_text(*factor, difference), is_gradient ? "gradient" : "one");
  }
  return kind == FindingKind::op ? text + allowance_text(tensor.allowance) : text;
}

std::string place_text(const CatalogOp& op) {
  const std::string_view file = op.source_file;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), op.line);
}

std::string short_text(const CompareFinding& finding) {
  std::string text = finding.what;
  if (finding.tensor == nullptr) return text;
  const TensorDifference& difference = *finding.tensor->difference;
  for (const std::string& detail : {largest_text(difference), allowance_text(finding.tensor->allowance)}) {
    const std::size_t at = text.find(detail);
    if (at != std::string::npos) text.erase(at, detail.size());
  }
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
    if (is_form(a.name)) return false;
    if (a.kind == AttributeKind::boolean || a.kind == AttributeKind::text) return a.kind == b.kind;
    return !a.reals.empty() && a.reals.size() == b.reals.size();
  });
}

std::vector<std::string> fractions_apart(const CatalogOp& target, const CatalogOp& golden) {
  return apart_where(target, golden, [](const Attribute& a, const Attribute& b) {
    return !a.reals.empty() && a.reals.size() == b.reals.size();
  });
}

std::vector<std::string> choices_apart(const CatalogOp& target, const CatalogOp& golden) {
  return apart_where(target, golden, [](const Attribute& a, const Attribute&) {
    return !is_form(a.name) || a.name.starts_with("dim") || a.name == "axis";
  });
}

std::vector<std::string> values_apart(const CatalogOp& target, const CatalogOp& golden) {
  return apart_where(target, golden, [](const Attribute& a, const Attribute& b) {
    if (is_form(a.name) || a.kind == AttributeKind::boolean) return false;
    // One left to its default, one written out: the result would show another value.
    const auto is_number = [](const Attribute& one) {
      return one.kind == AttributeKind::integer || one.kind == AttributeKind::real;
    };
    return a.kind == b.kind || (is_number(a) && is_number(b));
  });
}

}  // namespace sonde
