#include "analysis/bad_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "analysis/measure.h"

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
  for (const ValueFlow::Input& input : values.flow().inputs) {
    const SlotValues* operand = input.is_read ? values.input_values(input.tensor->slot) : nullptr;
    if (operand == nullptr || operand->shape() != output->shape()) continue;
    text += fmt::format(", input.{}{} = {}", input.tensor->slot, position_text(places[0]),
                        number_text(operand->at(places[0])));
  }
  return text;
}

// Nothing is known of the op but what goes in and comes out.
void tell_numbers(OpValues& values, BadKind bad, Cause& cause) {
  for (const ValueFlow::Input& input : values.flow().inputs) {
    const CatalogTensor* tensor = values.input(input.tensor->slot);
    if (!input.is_read || tensor == nullptr || tensor->constant) continue;
    const auto statistics = values.statistics(*tensor);
    if (!statistics || !statistics->max || !statistics->min) continue;
    cause.evidence.push_back(fmt::format("input.{}: from {} to {}", input.tensor->slot, number_text(*statistics->min),
                                         number_text(*statistics->max)));
  }
  if (std::string line = values_at_first_bad(values, bad); !line.empty()) cause.evidence.push_back(line);
}

// eps 0 and a row whose elements are all equal.
void tell_eps(OpValues& values, Cause& cause) {
  const std::optional<double> eps = values.number("eps");
  if (!eps || *eps != 0) return;
  cause.explained = true;
  cause.why = "eps is 0, and something that it divides by has variance or norm 0";
}

}  // namespace

// --- OpValues --------------------------------------------------------------------------------------------------------

OpValues::OpValues(const CatalogRank& rank, const ValueFlow& flow, const ValueFlow::Op& op, const CatalogTensor* output,
                   HealthReader& health)
    : rank_(rank), flow_(flow), op_(op), output_(output), health_(health), type_(bare_type(op.op->op_type)) {}

const CatalogTensor* OpValues::input(std::uint32_t slot) const {
  for (const ValueFlow::Input& input : op_.inputs) {
    if (!input.tensor->is_input || input.tensor->slot != slot) continue;
    if (input.tensor->recorded() || input.tensor->constant) return input.tensor;
    const CatalogTensor* made = flow_.made(input);
    const bool same = made != nullptr && made->recorded() && made->shape == input.tensor->shape;
    return same ? made : input.tensor;
  }
  return nullptr;
}

bool OpValues::is_recorded(std::uint32_t slot) const {
  const CatalogTensor* tensor = input(slot);
  return tensor != nullptr && (tensor->recorded() || tensor->constant || !is_floating(tensor->dtype));
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

std::optional<KnownStatistics> OpValues::statistics(const CatalogTensor& tensor) {
  if (const KnownStatistics* known = health_.statistics(tensor)) return *known;
  const Result<TensorFile> file = tensor.file.empty()
                                      ? Result<TensorFile>(Error{ErrorCode::not_found, ""})
                                      : TensorFile::open(rank_.directory / tensor.file, wish_of(tensor));
  if (!file || !info(file->dtype()).has_statistics) return std::nullopt;
  return known(summarize(file->view()));
}

bool OpValues::has_values() {
  if (output_values() == nullptr) return false;
  return std::ranges::all_of(op_.inputs, [&](const ValueFlow::Input& input) {
    return !input.is_read || input_values(input.tensor->slot) != nullptr;
  });
}

std::optional<double> OpValues::number(std::string_view attribute) const {
  if (op_.op->attributes == nullptr) return std::nullopt;
  for (const Attribute& a : *op_.op->attributes) {
    if (a.name != attribute) continue;
    if (a.kind == AttributeKind::real && !a.reals.empty()) return a.reals[0];
    if ((a.kind == AttributeKind::integer || a.kind == AttributeKind::boolean) && !a.integers.empty()) {
      return static_cast<double>(a.integers[0]);
    }
  }
  return std::nullopt;
}

std::vector<std::int64_t> OpValues::integers(std::string_view attribute) const {
  if (op_.op->attributes == nullptr) return {};
  for (const Attribute& a : *op_.op->attributes) {
    if (a.name == attribute) return a.integers;
  }
  return {};
}

// --- overflow --------------------------------------------------------------------------------------------------------

bool overflows(DType type, double value) {
  const double largest = largest_of(type);
  return largest > 0 && std::fabs(value) > largest;
}

void tell_overflow(DType type, double value, Cause& cause) {
  const double largest = largest_of(type);
  cause.overflow = true;
  cause.explained = true;
  cause.numbers.push_back({"true value", value});
  cause.numbers.push_back({"largest of the type", largest});
  cause.numbers.push_back({"headroom in powers of two", std::log2(largest / std::fabs(value))});
  cause.why +=
      fmt::format("; {} holds at most {}, {} would hold it", info(type).lower, number_text(largest), wider_type(value));
}

// --- all together ----------------------------------------------------------------------------------------------------

Cause cause_of(OpValues& values, BadKind bad) {
  Cause cause;
  const bool known = elementwise_cause(values, bad, cause) || row_cause(values, bad, cause) ||
                     product_cause(values, bad, cause) || statistics_cause(values, bad, cause);
  if (!known) tell_eps(values, cause);
  if (cause.evidence.empty()) tell_numbers(values, bad, cause);
  if (!values.has_values()) {
    cause.limits.push_back(
        "the dump has statistics of these tensors only: at which elements, and from which values, cannot be known; "
        "--next-config writes a configuration that keeps the tensors");
  }
  const bool all_recorded = std::ranges::all_of(values.flow().inputs, [&](const ValueFlow::Input& input) {
    return !input.is_read || values.is_recorded(input.tensor->slot);
  });
  cause.impossible = cause.impossible && all_recorded;
  const std::string finite = all_recorded ? "its inputs are finite and its result is not"
                                          : "its result is not finite, and what was recorded of its inputs is";
  if (cause.why.empty() && values.flow().nature.only_moves && all_recorded) {
    cause.impossible = true;
    cause.why = fmt::format(
        "{} gives only numbers that it was given, or smaller ones, and what was recorded of its inputs "
        "is finite",
        values.op().op_type);
  }
  if (cause.why.empty() && is_low(values.output_type()) && bad == BadKind::inf) {
    cause.why = fmt::format("{}; {} holds at most {}", finite, info(values.output_type()).lower,
                            number_text(largest_of(values.output_type())));
  }
  if (cause.why.empty()) cause.why = finite;
  return cause;
}

}  // namespace sonde
