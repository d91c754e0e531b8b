// Causes of a result that is not a number, from maxima, minima and counts of the inputs alone.
#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <set>

#include "first_bad/bad_cause.h"

namespace sonde {
namespace {

std::string range_text(std::uint32_t slot, const KnownStatistics& s) {
  std::string text = fmt::format("input.{}", slot);
  if (s.min && s.max && *s.min == *s.max) return text + " = " + number_text(*s.min);
  if (s.min && s.max) text += fmt::format(" from {} to {}", number_text(*s.min), number_text(*s.max));
  if (s.zero_count) text += fmt::format(", {} zeros", *s.zero_count);
  return text;
}

bool may_be_zero(const KnownStatistics& s) {
  if (s.zero_count) return *s.zero_count > 0;
  return s.min && s.max && *s.min <= 0 && *s.max >= 0;
}
bool is_surely_zero(const KnownStatistics& s) {
  return s.zero_count.value_or(0) > 0 || (s.min && s.min == 0) || (s.max && s.max == 0);
}
bool may_be_negative(const KnownStatistics& s) { return (s.min && *s.min < 0) || s.negative_count.value_or(0) > 0; }

// `of`: "log", "square root".
bool explain_domain(const KnownStatistics& s, const std::string& of, bool zero_is_bad, Cause& cause) {
  if (may_be_negative(s)) {
    cause.why =
        fmt::format("{} of a negative number: its input goes down to {}", of, number_text(s.min.value_or(-0.0)));
  } else if (zero_is_bad && is_surely_zero(s)) {
    cause.why = fmt::format("{} of 0: its input holds {}", of,
                            s.zero_count ? fmt::format("{} zeros", *s.zero_count) : std::string("0"));
  } else {
    return false;
  }
  return true;
}

bool explain_too_large(OpValues& values, double result, const std::string& what, Cause& cause) {
  if (!overflows(values.output_type(), result)) return false;
  cause.why = fmt::format("{} is {}", what, number_text(result));
  if (std::isfinite(result)) {
    explain_overflow(values.output_type(), result, cause);
  } else {
    cause.overflow = true;
  }
  return true;
}

bool explain_one_input(OpValues& values, BadKind bad, const KnownStatistics& s, Cause& cause) {
  const std::string& type = values.type();
  const double high = s.max.value_or(0), low = s.min.value_or(0);
  const double largest = std::fabs(low) > std::fabs(high) ? low : high;
  if (type == "log" || type == "log2" || type == "log10") return explain_domain(s, type, true, cause);
  if (type == "sqrt") return explain_domain(s, "square root", false, cause);
  if (type == "rsqrt") return explain_domain(s, "reciprocal square root", true, cause);
  if (type == "reciprocal" && may_be_zero(s)) {
    cause.why = "division by 0: " + range_text(0, s);
    return true;
  }
  if (type == "exp" || type == "expm1")
    return explain_too_large(values, std::exp(high), fmt::format("{} of {}", type, number_text(high)), cause);
  if (type == "square")
    return explain_too_large(values, largest * largest, fmt::format("the square of {}", number_text(largest)), cause);
  if (type == "pow" || type == "power") {
    const auto exponent = values.number("exponent");
    return exponent &&
           explain_too_large(values, std::pow(std::fabs(largest), *exponent),
                             fmt::format("{} to the power {}", number_text(largest), number_text(*exponent)), cause);
  }
  if (type == "to" || type == "tocopy" || type == "cast" || type == "half" || type == "bfloat16") {
    return explain_too_large(values, largest, "its largest input", cause);
  }
  if (type.find("softmax") != std::string::npos && bad == BadKind::nan && s.negative_inf_count.value_or(0) > 0) {
    cause.why =
        fmt::format("its input holds {} -inf: a row that is all -inf gives 0 divided by 0", *s.negative_inf_count);
    return true;
  }
  return false;
}

bool explain_two_inputs(OpValues& values, const KnownStatistics& a, const KnownStatistics& b, Cause& cause) {
  const std::string& type = values.type();
  const auto largest = [](const KnownStatistics& s) {
    return std::max(std::fabs(s.max.value_or(0)), std::fabs(s.min.value_or(0)));
  };
  if ((type == "div" || type == "realdiv" || type == "divide") && may_be_zero(b)) {
    cause.why = fmt::format("division by 0: {}{}", range_text(1, b), is_surely_zero(b) ? "" : " may hold it");
    return true;
  }
  const auto explain_number = [&](const KnownStatistics& s) {
    const bool is_number = s.max && s.min && s.max == s.min && !s.l2norm;
    if (!is_number || values.output_type() == DType::float64 || largest_of(values.output_type()) == 0) return false;
    if (!std::isfinite(*s.max) || std::fabs(*s.max) <= FLT_MAX) return false;
    cause.why = fmt::format("the number {} is more than float32 holds and becomes an infinity", number_text(*s.max));
    return cause.overflow = true;
  };
  if ((type == "mul" || type == "muls" || type == "div" || type == "add" || type == "sub") && explain_number(b))
    return true;
  if (type == "mul" || type == "multiply" || type == "muls") {
    return explain_too_large(values, largest(a) * largest(b),
                             fmt::format("{} times {}", number_text(largest(a)), number_text(largest(b))), cause);
  }
  if (type == "add" || type == "sub" || type == "addext") {
    return explain_too_large(values, largest(a) + largest(b),
                             fmt::format("{} and {} together", number_text(largest(a)), number_text(largest(b))),
                             cause);
  }
  return false;
}

// The statistics have the true norm; on the way there the squares are added.
bool explain_norm(OpValues& values, const KnownStatistics& s, std::uint32_t slot, Cause& cause) {
  static const std::set<std::string_view> kNorms = {"norm", "linalgvectornorm", "foreachnorm", "frobeniusnorm"};
  if (!kNorms.contains(values.type()) || !s.l2norm || !std::isfinite(*s.l2norm)) return false;
  const double squares = *s.l2norm * *s.l2norm;
  if (!overflows(values.output_type(), squares)) return false;
  cause.why = fmt::format("the norm of input.{} is {}, and the sum of squares on the way to it {}", slot,
                          number_text(*s.l2norm), number_text(squares));
  explain_overflow(values.output_type(), squares, cause);
  cause.evidence.push_back(range_text(slot, s));
  return true;
}

std::optional<KnownStatistics> statistics_of(OpValues& values, std::uint32_t slot) {
  const CatalogTensor* tensor = values.input(slot);
  if (tensor == nullptr) return std::nullopt;
  if (!tensor->constant) return values.statistics(*tensor);
  KnownStatistics one;
  one.max = one.min = one.avg = *tensor->constant;
  one.zero_count = *tensor->constant == 0 ? 1 : 0;
  return one;
}

}  // namespace

bool statistics_cause(OpValues& values, BadKind bad, Cause& cause) {
  const bool is_list = values.flow().nature.is_list && values.output() != nullptr;
  const std::uint32_t slot = is_list ? values.output()->slot : 0;
  const auto of_slot = statistics_of(values, slot);
  if (of_slot && bad == BadKind::inf && explain_norm(values, *of_slot, slot, cause)) return true;
  const auto first = statistics_of(values, 0);
  if (!first) return false;
  const auto second = statistics_of(values, 1);
  const bool found =
      explain_one_input(values, bad, *first, cause) || (second && explain_two_inputs(values, *first, *second, cause));
  if (!found) return false;
  cause.explained = true;
  cause.evidence.push_back(range_text(0, *first));
  if (second) cause.evidence.push_back(range_text(1, *second));
  return true;
}

}  // namespace sonde
