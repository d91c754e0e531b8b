// Causes of a result that is not a number, from maxima, minima and counts of the inputs alone.
#include <fmt/format.h>

#include <cfloat>
#include <cmath>

#include "ask/first_bad/bad_cause.h"
#include "ask/first_bad/formulas.h"
#include "ground/base/text.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

std::string range_text(std::uint32_t slot, const KnownStatistics& s) {
  std::string text = fmt::format("input.{}", slot);
  if (s.min && s.max && *s.min == *s.max) return text + " = " + number_text(*s.min);
  if (s.min && s.max) text += fmt::format(" from {} to {}", number_text(*s.min), number_text(*s.max));
  if (s.zero_count) text += ", " + count_text(*s.zero_count, "zero");
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
    cause.pole = true;
    cause.why = fmt::format("{} of 0: its input holds {}", of,
                            s.zero_count ? count_text(*s.zero_count, "zero") : std::string("0"));
  } else {
    return false;
  }
  return true;
}

bool explain_too_large(OpValues& values, double result, const std::string& what, Cause& cause,
                       Exactness exactness = Exactness::exact) {
  if (!overflows(values.output_type(), result)) return false;
  cause.why = fmt::format("{} is {}{}", what, exactness == Exactness::bound ? "at most " : "", number_text(result));
  if (std::isfinite(result)) {
    explain_overflow(values.output_type(), result, cause, exactness);
  } else {
    cause.overflow = true;
  }
  return true;
}

// The exponents go from `least` to `most`.
bool explain_power_of_negative(const KnownStatistics& base, double least, double most, Cause& cause) {
  const bool is_whole = least == most && std::floor(least) == least;
  if (is_whole || !may_be_negative(base)) return false;
  cause.why = least == most ? fmt::format("a negative number to the power {}: its input goes down to {}",
                                          number_text(least), number_text(base.min.value_or(-0.0)))
                            : fmt::format("a negative number to a fractional power: {}, to powers from {} to {}",
                                          range_text(0, base), number_text(least), number_text(most));
  return true;
}

// An input that is known to be there, the least, the largest or a 0, has no finite result: acos of 1.5.
bool explain_by_formula(OpValues& values, const KnownStatistics& s, Cause& cause) {
  const Formula* formula = formula_of(values.type());
  if (formula == nullptr || formula->operands != 1) return false;
  const std::optional<double> zero = is_surely_zero(s) ? std::optional(0.0) : std::nullopt;
  for (const std::optional<double>& input : {s.min, s.max, zero}) {
    if (!input || !std::isfinite(*input)) continue;
    const Fault fault = formula->fault(*input, 0);
    if (*fault.text == 0) continue;
    cause.pole = std::isinf(formula->value(*input, 0));
    cause.divides_by_zero = fault.divides_by_zero;
    cause.why = fmt::format("{}: {}", fault.text, range_text(0, s));
    return true;
  }
  return false;
}

bool explain_one_input(OpValues& values, BadKind bad, const KnownStatistics& s, Cause& cause) {
  using enum OpWork;
  const std::string& type = values.type();
  const OpWork work = values.work();
  const double high = s.max.value_or(0), low = s.min.value_or(0);
  const double largest = std::fabs(low) > std::fabs(high) ? low : high;
  if (work == logarithm) return explain_domain(s, type, true, cause);
  if (work == logarithm_of_more && s.min && *s.min <= -1) {
    cause.pole = *s.min == -1;
    cause.why =
        fmt::format("log1p of {}: its input goes down to {}", cause.pole ? "-1" : "less than -1", number_text(*s.min));
    return true;
  }
  if (work == root) return explain_domain(s, "square root", false, cause);
  if (work == reciprocal_root) return explain_domain(s, "reciprocal square root", true, cause);
  if (work == reciprocal && may_be_zero(s)) {
    cause.pole = is_surely_zero(s);
    cause.divides_by_zero = true;
    cause.why = "division by 0: " + range_text(0, s);
    return true;
  }
  if (work == exponential)
    return explain_too_large(values, std::exp(high), fmt::format("{} of {}", type, number_text(high)), cause);
  if (work == square)
    return explain_too_large(values, largest * largest, fmt::format("the square of {}", number_text(largest)), cause);
  if (work == power) {
    const auto exponent = values.number("exponent");
    if (exponent && *exponent < 0 && is_surely_zero(s)) {
      cause.pole = true;
      cause.why = fmt::format("0 to a negative power: {} to the power {}", range_text(0, s), number_text(*exponent));
      return true;
    }
    if (exponent && bad == BadKind::nan && explain_power_of_negative(s, *exponent, *exponent, cause)) return true;
    return exponent &&
           explain_too_large(values, std::pow(std::fabs(largest), *exponent),
                             fmt::format("{} to the power {}", number_text(largest), number_text(*exponent)), cause);
  }
  if (work == cast) {
    return explain_too_large(values, largest, "its largest input", cause);
  }
  if (work == log_softmax && bad == BadKind::inf && std::isfinite(high - low)) {
    return explain_too_large(values, high - low,
                             fmt::format("the logarithm of a probability of inputs {} apart", number_text(high - low)),
                             cause, Exactness::bound);
  }
  if (is_softmax(type) && bad == BadKind::nan && s.negative_inf_count.value_or(0) > 0) {
    cause.divides_by_zero = true;
    cause.why =
        fmt::format("its input holds {} -inf: a row that is all -inf gives 0 divided by 0", *s.negative_inf_count);
    return true;
  }
  return false;
}

double largest_in(const KnownStatistics& s) {
  return std::max(std::fabs(s.max.value_or(0)), std::fabs(s.min.value_or(0)));
}

// All of its elements are equal, so the extremes are its value everywhere.
bool is_one_number(const KnownStatistics& s) { return s.max && s.min && *s.max == *s.min; }

bool has_inf(const KnownStatistics& s, double sign) {
  const auto& count = s.infinity_count(sign);
  const auto& extreme = sign > 0 ? s.max : s.min;
  return count ? *count > 0 : extreme && std::isinf(*extreme) && (*extreme > 0) == (sign > 0);
}

std::string inf_text(std::uint32_t slot, const KnownStatistics& s, double sign) {
  const auto& count = s.infinity_count(sign);
  const char* name = sign > 0 ? "inf" : "-inf";
  return count ? fmt::format("input.{} holds {} {}", slot, *count, name) : fmt::format("input.{} holds {}", slot, name);
}

// NaN of a sum, a difference or a product of infinities.
bool explain_infinities_of(OpWork work, const KnownStatistics& a, const KnownStatistics& b, Cause& cause) {
  const bool is_difference = work == OpWork::subtract || work == OpWork::subtract_from;
  const bool is_sum = work == OpWork::add;
  for (const double sign : {-1.0, 1.0}) {
    const double other = is_difference ? sign : -sign;
    if ((!is_difference && !is_sum) || !has_inf(a, sign) || !has_inf(b, other)) continue;
    const char* what = !is_difference ? "inf and -inf are added" : sign < 0 ? "-inf minus -inf" : "inf minus inf";
    cause.why = fmt::format("{}: {}, {}", what, inf_text(0, a, sign), inf_text(1, b, other));
    return true;
  }
  const bool a_is_infinite = has_inf(a, 1) || has_inf(a, -1), b_is_infinite = has_inf(b, 1) || has_inf(b, -1);
  if (work == OpWork::multiply && ((a_is_infinite && is_surely_zero(b)) || (b_is_infinite && is_surely_zero(a)))) {
    const double sign = has_inf(a_is_infinite ? a : b, 1) ? 1 : -1;
    cause.makes_nan_of_zero = true;
    cause.why = fmt::format("0 times infinity: {}, {}", inf_text(a_is_infinite ? 0 : 1, a_is_infinite ? a : b, sign),
                            range_text(a_is_infinite ? 1 : 0, a_is_infinite ? b : a));
    return true;
  }
  if (work == OpWork::divide && a_is_infinite && b_is_infinite) {
    cause.why = "infinity divided by infinity: " + range_text(0, a) + ", " + range_text(1, b);
    return true;
  }
  return false;
}

// A number of the program's code becomes an infinity before the kernel sees it.
bool explain_number(OpValues& values, const KnownStatistics& s, Cause& cause) {
  const bool is_number = is_one_number(s) && !s.l2norm;
  if (!is_number || values.output_type() == DType::float64 || largest_of(values.output_type()) == 0) return false;
  if (!std::isfinite(*s.max) || std::fabs(*s.max) <= FLT_MAX) return false;
  cause.why = fmt::format("the number {} is more than float32 holds and becomes an infinity", number_text(*s.max));
  return cause.overflow = true;
}

bool explain_quotient(const KnownStatistics& a, const KnownStatistics& b, std::uint32_t divisor, BadKind bad,
                      Cause& cause) {
  if (!may_be_zero(b)) return false;
  cause.pole = is_surely_zero(b) && bad == BadKind::inf;
  const bool both = bad == BadKind::nan && is_surely_zero(a) && is_surely_zero(b);
  cause.divides_by_zero = true;
  cause.makes_nan_of_zero = both;
  cause.why = fmt::format("{}: {}{}{}", both ? "0 divided by 0" : "division by 0",
                          both ? range_text(divisor - 1, a) + ", " : "", range_text(divisor, b),
                          is_surely_zero(b) ? "" : " may hold it");
  return true;
}

bool explain_two_inputs(OpValues& values, BadKind bad, const KnownStatistics& a, const KnownStatistics& b,
                        Cause& cause) {
  const OpWork work = values.work_on_one();
  if (bad == BadKind::nan && explain_infinities_of(work, a, b, cause)) return true;
  if (work == OpWork::divide) return explain_quotient(a, b, 1, bad, cause) || explain_number(values, b, cause);
  if (work == OpWork::power && bad == BadKind::nan && b.min && b.max)
    return explain_power_of_negative(a, *b.min, *b.max, cause);
  const bool is_sum = work == OpWork::add || work == OpWork::subtract || work == OpWork::subtract_from;
  if ((work == OpWork::multiply || is_sum) && explain_number(values, b, cause)) return true;
  if (bad == BadKind::nan || !std::isfinite(largest_in(a)) || !std::isfinite(largest_in(b))) return false;
  // The largest elements of both need not meet in one place.
  const Exactness exactness = is_one_number(a) || is_one_number(b) ? Exactness::exact : Exactness::bound;
  if (work == OpWork::multiply) {
    return explain_too_large(values, largest_in(a) * largest_in(b),
                             fmt::format("{} times {}", number_text(largest_in(a)), number_text(largest_in(b))), cause,
                             exactness);
  }
  return is_sum &&
         explain_too_large(values, largest_in(a) + largest_in(b),
                           fmt::format("{} and {} together", number_text(largest_in(a)), number_text(largest_in(b))),
                           cause, Exactness::bound);
}

// The statistics have the true norm; on the way there the squares are added.
bool explain_norm(OpValues& values, const KnownStatistics& s, std::uint32_t slot, Cause& cause) {
  if (values.work_on_one() != OpWork::norm || !s.l2norm || !std::isfinite(*s.l2norm)) return false;
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
  // In `_foreach_…` the k-th result comes from the k-th of each list.
  const bool is_list = values.flow().nature.is_list && values.output() != nullptr;
  std::uint32_t inputs = 0, outputs = 0;
  for (const CatalogTensor& tensor : values.op().tensors) (tensor.is_input ? inputs : outputs) += 1;
  const std::uint32_t slot = is_list ? values.output()->slot : 0, size = is_list ? outputs : 1;
  const bool is_addcdiv = values.work_on_one() == OpWork::add_quotient;
  const std::uint32_t a = slot + (is_addcdiv ? size : 0);
  const std::uint32_t b = !is_list || inputs >= (is_addcdiv ? 3 : 2) * size ? a + size : inputs - 1;
  const auto first = statistics_of(values, a);
  if (!first) return false;
  if (bad == BadKind::inf && explain_norm(values, *first, a, cause)) return true;
  const auto second = b != a ? statistics_of(values, b) : std::nullopt;
  const bool found = is_addcdiv ? second && explain_quotient(*first, *second, b, bad, cause)
                                : explain_one_input(values, bad, *first, cause) ||
                                      (second && explain_two_inputs(values, bad, *first, *second, cause)) ||
                                      explain_by_formula(values, *first, cause);
  if (!found) return false;
  cause.explained = true;
  cause.evidence.push_back(range_text(a, *first));
  if (second) cause.evidence.push_back(range_text(b, *second));
  return true;
}

}  // namespace sonde
