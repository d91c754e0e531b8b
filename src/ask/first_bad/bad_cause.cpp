#include "ask/first_bad/bad_cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <set>

#include "ground/base/shape.h"
#include "read/measure/measure.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

// The narrowest type that holds the value.
std::string_view wider_type(double value) {
  const double magnitude = std::fabs(value);
  return magnitude <= FLT_MAX ? "float32" : "float64";
}

bool is_low(DType type) { return largest_of(type) > 0 && type != DType::float64; }

std::string values_at_first_bad(OpValues& values, BadKind bad) {
  const SlotValues* output = values.output_values();
  if (output == nullptr) return "";
  const auto places = output->find(bad == BadKind::nan ? SlotValues::Want::nan : SlotValues::Want::inf, 1);
  if (places.empty()) return "";
  std::string text = fmt::format("output.{}{} = {}", values.output()->slot, position_text(places[0]),
                                 number_text(output->at(places[0])));
  for (const FlowInput& input : values.flow().inputs) {
    const SlotValues* operand = input.is_read && !input.is_unsaid ? values.input_values(input.tensor->slot) : nullptr;
    if (operand == nullptr || operand->shape() != output->shape()) continue;
    text += fmt::format(", input.{}{} = {}", input.tensor->slot, position_text(places[0]),
                        number_text(operand->at(places[0])));
  }
  return text;
}

// Only the inputs and outputs of the op are known. Beside an input that is not finite, the finite ones explain nothing.
void add_numbers(OpValues& values, BadKind bad, Cause& cause) {
  constexpr std::size_t kMostRanges = 4;
  std::vector<std::string> ranges, not_finite;
  for (const FlowInput& input : values.flow().inputs) {
    const CatalogTensor* tensor = values.input(input.tensor->slot);
    if (!input.is_read || input.is_unsaid || tensor == nullptr || tensor->constant) continue;
    const auto statistics = values.statistics(*tensor);
    if (!statistics || !statistics->max || !statistics->min) continue;
    std::string range = fmt::format("input.{}: from {} to {}", input.tensor->slot, number_text(*statistics->min),
                                    number_text(*statistics->max));
    if (values.is_bad(*tensor)) not_finite.push_back(range);
    ranges.push_back(std::move(range));
  }
  std::vector<std::string>& shown = not_finite.empty() ? ranges : not_finite;
  const std::size_t finite = not_finite.empty() ? std::min(ranges.size(), kMostRanges) : not_finite.size();
  const std::size_t left_out = ranges.size() - finite;
  if (shown.size() > kMostRanges) shown.resize(kMostRanges);
  std::ranges::move(shown, std::back_inserter(cause.evidence));
  if (left_out == 1) cause.evidence.emplace_back("the other input is finite");
  if (left_out > 1) cause.evidence.push_back(fmt::format("the other {} inputs are finite", left_out));
  if (std::string line = values_at_first_bad(values, bad); !line.empty()) cause.evidence.push_back(line);
}

// eps 0 and a row whose elements are all equal.
void add_eps(OpValues& values, Cause& cause) {
  const std::optional<double> eps = values.number("eps");
  if (!eps || *eps != 0) return;
  cause.explained = true;
  cause.why = "eps is 0, and something that it divides by has variance or norm 0";
}

// For `add_(alpha=nan)`, or the rate of an optimizer: the argument that is not a number.
bool argument_cause(const OpValues& values, Cause& cause) {
  if (values.op().attributes == nullptr) return false;
  static const std::set<std::string_view> kUsed = {"alpha",  "value", "other",       "exponent", "weight",
                                                   "lr",     "eps",   "beta",        "beta1",    "beta2",
                                                   "scalar", "p",     "weight_decay"};
  for (const Attribute& a : *values.op().attributes) {
    const auto bad = std::ranges::find_if(a.reals, [](double number) { return !std::isfinite(number); });
    if (bad == a.reals.end() || !kUsed.contains(a.name)) continue;
    cause.explained = true;
    cause.why = fmt::format("its argument {} is {}", a.name, number_text(*bad));
    cause.numbers.push_back({std::string(a.name), *bad});
    return true;
  }
  return false;
}

double largest_magnitude(const KnownStatistics& s) {
  return std::max(std::fabs(s.max.value_or(0)), std::fabs(s.min.value_or(0)));
}

// Kept elements are scaled by 1 / (1 - p).
bool dropout_cause(OpValues& values, Cause& cause) {
  const std::optional<double> p = values.number("p");
  if (values.work() != OpWork::dropout || !p || *p >= 1 || values.input(0) == nullptr) return false;
  const std::optional<KnownStatistics> input = values.statistics(*values.input(0));
  if (!input) return false;
  const double scaled = largest_magnitude(*input) / (1 - *p);
  if (!overflows(values.output_type(), scaled)) return false;
  cause.why = fmt::format("{} scales the kept elements by {}, the largest to {}", values.op().op_type,
                          number_text(1 / (1 - *p)), number_text(scaled));
  explain_overflow(values.output_type(), scaled, cause);
  return true;
}

// The mean or sum of squares of differences.
bool squared_error_cause(OpValues& values, Cause& cause) {
  if (values.work() != OpWork::squared_error || values.input(0) == nullptr || values.input(1) == nullptr) return false;
  const auto a = values.statistics(*values.input(0)), b = values.statistics(*values.input(1));
  if (!a || !b || !a->max || !a->min || !b->max || !b->min) return false;
  const double apart = std::max(std::fabs(*a->max - *b->min), std::fabs(*a->min - *b->max));
  if (!overflows(values.output_type(), apart * apart)) return false;
  cause.why =
      fmt::format("differences up to {} are squared, which is {}", number_text(apart), number_text(apart * apart));
  explain_overflow(values.output_type(), apart * apart, cause, Exactness::bound);
  return true;
}

// Many factors make one number: it may be too large on the way to a 0.
bool running_product_cause(OpValues& values, BadKind bad, Cause& cause) {
  if (!multiplies_along(values.type(), values.text("reduce"))) return false;
  double largest = 0;
  bool any_zero = false;
  std::uint64_t count = 0;
  for (const FlowInput& input : values.flow().inputs) {
    const CatalogTensor* tensor = input.is_read ? values.input(input.tensor->slot) : nullptr;
    if (tensor == nullptr || !is_floating(tensor->dtype)) continue;
    const auto known = values.statistics(*tensor);
    if (!known || !known->min || !known->max || !std::isfinite(*known->min) || !std::isfinite(*known->max))
      return false;
    largest = std::max({largest, std::fabs(*known->min), std::fabs(*known->max)});
    any_zero = any_zero || known->zero_count.value_or(0) > 0 || *known->min == 0 || *known->max == 0;
    count = std::max(count, element_count(tensor->shape));
  }
  // So many factors of this size can be too large; with a 0 among them the rest of the product is NaN.
  const double most = largest_of(values.output_type());
  if (largest <= 1 || most <= 0 || static_cast<double>(count) * std::log(largest) <= std::log(most)) return false;
  if (bad == BadKind::nan && !any_zero) return false;
  cause.overflow = cause.explained = true;
  cause.why = fmt::format("up to {} numbers up to {} are multiplied, and the product exceeds the largest value of {}{}",
                          count, number_text(largest), info(values.output_type()).lower,
                          bad == BadKind::nan ? ", and infinity times 0 is NaN" : "");
  return true;
}

// Normalised by statistics that the program keeps: the fourth and fifth input; with fewer inputs, the last.
bool running_variance_cause(OpValues& values, Cause& cause) {
  if (!is_batch_norm(values.type()) || values.input(4) == nullptr) return false;
  const std::optional<KnownStatistics> variance = values.statistics(*values.input(4));
  const double eps = values.number("eps").value_or(0);
  if (!variance || !variance->min || *variance->min + eps > 0) return false;
  cause.explained = true;
  cause.why = fmt::format("the running variance, input.4, goes down to {}: {}", number_text(*variance->min),
                          *variance->min + eps < 0 ? "the square root of a negative number" : "division by 0");
  return true;
}

// For ops that return elements of their inputs, or smaller ones.
bool is_impossible(OpValues& values) {
  if (!values.flow().nature.only_moves) return false;
  for (const FlowInput& input : values.flow().inputs) {
    const DType type = input.tensor->dtype;
    if (input.is_read && !input.tensor->constant && is_floating(type) && type != values.output_type()) return false;
    if (input.tensor->constant && !std::isfinite(*input.tensor->constant)) return false;
  }
  if (values.op().attributes == nullptr) return true;
  return std::ranges::all_of(*values.op().attributes, [](const Attribute& a) {
    return a.name != "decimals" && std::ranges::all_of(a.reals, [](double number) { return std::isfinite(number); });
  });
}

}  // namespace

// --- OpValues --------------------------------------------------------------------------------------------------------

OpValues::OpValues(const CatalogRank& rank, const ValueFlow& flow, const FlowOp& op, const CatalogTensor* output,
                   HealthReader& health)
    : rank_(rank), flow_(flow), op_(op), output_(output), health_(health), type_(bare_type(op.op->op_type)) {
  if (op.is_reversed) type_ += "backward";
}

DType OpValues::output_type() {
  if (output_ == nullptr || output_->dtype != DType::undefined)
    return output_ == nullptr ? DType::undefined : output_->dtype;
  const SlotValues* values = output_values();
  return values == nullptr ? DType::undefined : values->dtype();
}

const CatalogTensor* OpValues::input(std::uint32_t slot) const {
  for (const FlowInput& input : op_.inputs) {
    if (!input.tensor->is_input || input.is_unsaid || input.tensor->slot != slot) continue;
    if (input.tensor->recorded() || input.tensor->constant) return input.tensor;
    const CatalogTensor* made = flow_.graph().made(input);
    const bool same = made != nullptr && made->recorded() && made->shape == input.tensor->shape;
    return same ? made : input.tensor;
  }
  return nullptr;
}

bool OpValues::is_recorded(std::uint32_t slot) const {
  const CatalogTensor* tensor = input(slot);
  return tensor != nullptr && (tensor->recorded() || tensor->constant || !may_be_floating(tensor));
}

const SlotValues* OpValues::input_values(std::uint32_t slot) {
  const CatalogTensor* tensor = input(slot);
  return tensor == nullptr ? nullptr : values_of(*tensor);
}

const SlotValues* OpValues::output_values() { return output_ == nullptr ? nullptr : values_of(*output_); }

const SlotValues* OpValues::values_of(const CatalogTensor& tensor) {
  auto known = std::ranges::find(opened_, &tensor, &Opened::first);
  if (known == opened_.end()) {
    opened_.emplace_back(&tensor, SlotValues::open(rank_, tensor));
    known = std::prev(opened_.end());
  }
  return known->second ? &*known->second : nullptr;
}

bool OpValues::reads_bad() const {
  return std::ranges::any_of(op_.inputs,
                             [&](const FlowInput& input) { return input.is_read && is_bad(*input.tensor); });
}

bool OpValues::is_bad(const CatalogTensor& tensor) const { return health_.of(tensor).bad(); }

std::optional<KnownStatistics> OpValues::statistics(const CatalogTensor& tensor) {
  if (const KnownStatistics* known = health_.statistics(tensor)) return *known;
  const Result<TensorFile> file =
      tensor.file.empty() ? Result<TensorFile>(Error{ErrorCode::not_found, ""}) : open_file(rank_, tensor);
  if (!file || !info(file->dtype()).has_statistics) return std::nullopt;
  return known(summarize(file->view()));
}

bool OpValues::has_values() {
  if (output_values() == nullptr) return false;
  return std::ranges::all_of(op_.inputs, [&](const FlowInput& input) {
    return !input.is_read || input.is_unsaid || input_values(input.tensor->slot) != nullptr;
  });
}

std::optional<double> OpValues::number(std::string_view attribute) const {
  const Attribute* found = attribute_of(*op_.op, attribute);
  if (found == nullptr) return std::nullopt;
  const bool is_number = found->kind == AttributeKind::real || found->kind == AttributeKind::integer ||
                         found->kind == AttributeKind::boolean;
  return is_number ? number_in(*op_.op, attribute) : std::nullopt;
}

std::vector<std::int64_t> OpValues::integers(std::string_view attribute) const {
  const Attribute* found = attribute_of(*op_.op, attribute);
  return found == nullptr ? std::vector<std::int64_t>() : found->integers;
}

std::string_view OpValues::text(std::string_view attribute) const {
  const Attribute* found = attribute_of(*op_.op, attribute);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

// --- overflow --------------------------------------------------------------------------------------------------------

bool overflows(DType type, double value) {
  const double largest = largest_of(type);
  return largest > 0 && std::fabs(value) > largest;
}

void explain_overflow(DType type, double value, Cause& cause, Exactness exactness) {
  const double largest = largest_of(type);
  cause.overflow = true;
  cause.explained = true;
  const bool is_bound = exactness == Exactness::bound;
  cause.numbers.push_back({is_bound ? "at most" : "true value", value});
  cause.numbers.push_back({"largest of the type", largest});
  cause.numbers.push_back({is_bound ? "headroom in powers of two, at least" : "headroom in powers of two",
                           std::log2(largest / std::fabs(value))});
  cause.why += fmt::format("; {} holds at most {}", info(type).lower, number_text(largest));
  if (std::fabs(value) <= DBL_MAX) cause.why += fmt::format(", {} would hold it", wider_type(value));
}

// --- all causes ------------------------------------------------------------------------------------------------------

namespace {

// Tensors of which there are statistics alone. Inputs that were not recorded have a limit of their own.
void add_lacking_values(OpValues& values, Cause& cause) {
  if (values.output_values() == nullptr) {
    cause.limits.emplace_back(
        "which elements: the dump has statistics of these tensors only (--next-config keeps the tensors)");
    return;
  }
  std::vector<std::string> lacking;
  for (const FlowInput& input : values.flow().inputs) {
    const std::uint32_t slot = input.tensor->slot;
    if (!input.is_read || input.is_unsaid || !values.is_recorded(slot) || values.input_values(slot) != nullptr)
      continue;
    lacking.push_back(fmt::format("input.{}", slot));
  }
  if (lacking.empty()) return;
  cause.limits.push_back(
      fmt::format("which elements: the dump has statistics of {} only (--next-config keeps the tensors)",
                  fmt::join(lacking, ", ")));
}

std::string_view not_finite_text(BadKind bad) {
  return bad == BadKind::nan ? "infinities among its inputs become NaN" : "its inputs hold infinities already";
}

}  // namespace

Cause cause_of(OpValues& values, BadKind bad) {
  Cause cause;
  const bool known = argument_cause(values, cause) || shape_cause(values, bad, cause) || dropout_cause(values, cause) ||
                     elementwise_cause(values, bad, cause) || row_cause(values, bad, cause) ||
                     product_cause(values, bad, cause) || squared_error_cause(values, cause) ||
                     running_variance_cause(values, cause) || running_product_cause(values, bad, cause) ||
                     statistics_cause(values, bad, cause);
  if (!known) add_eps(values, cause);
  if (cause.evidence.empty()) add_numbers(values, bad, cause);
  if (!values.has_values()) add_lacking_values(values, cause);
  const bool all_recorded = std::ranges::all_of(values.flow().inputs, [&](const FlowInput& input) {
    return !input.is_read || input.is_unsaid || values.is_recorded(input.tensor->slot);
  });
  cause.impossible = cause.impossible && all_recorded;
  const bool all_finite = std::ranges::none_of(values.flow().inputs, [&](const FlowInput& input) {
    if (input.is_read && input.is_unsaid) return values.is_bad(*input.tensor);
    const CatalogTensor* tensor = input.is_read ? values.input(input.tensor->slot) : nullptr;
    return tensor != nullptr && values.is_bad(*tensor);
  });
  if (cause.why.empty() && values.flow().nature.skips_nan && bad == BadKind::nan) {
    cause.why = fmt::format("{} leaves NaN out, and nothing is left", values.op().op_type);
    cause.explained = true;
  }
  const bool is_alone = values.op().is_module && values.flow().inputs.empty();
  const std::string_view finite = is_alone       ? "its result is not finite; the dump has none of its inputs"
                                  : !all_finite  ? not_finite_text(bad)
                                  : all_recorded ? "its inputs are finite and its result is not"
                                                 : "its result is not finite, and its recorded inputs are";
  if (cause.why.empty() && is_impossible(values) && all_recorded) {
    cause.impossible = true;
    cause.why =
        fmt::format("{} cannot exceed its inputs, and all of its recorded inputs are finite", values.op().op_type);
  }
  if (cause.why.empty() && bad == BadKind::inf && all_finite && all_recorded && largest_of(values.output_type()) > 0 &&
      only_adds_up(values.type())) {
    cause.overflow = true;
    cause.why = fmt::format("finite numbers give a result beyond the largest value of {}, which is {}",
                            info(values.output_type()).lower, number_text(largest_of(values.output_type())));
  }
  if (cause.why.empty() && is_low(values.output_type()) && bad == BadKind::inf && all_finite) {
    cause.why = fmt::format("{}; {} holds at most {}", finite, info(values.output_type()).lower,
                            number_text(largest_of(values.output_type())));
  }
  if (cause.why.empty()) cause.why = finite;
  return cause;
}

}  // namespace sonde
