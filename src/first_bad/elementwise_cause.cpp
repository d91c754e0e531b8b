// Ops whose result at one place depends on their inputs at that place.
#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <string>
#include <unordered_map>

#include "first_bad/bad_cause.h"

namespace sonde {
namespace {

constexpr std::size_t kElementsShown = 3;

struct Formula {
  int operands;
  double (*value)(double a, double b);
  // The error in these operands; empty if there is none, so that only the result may be too large.
  const char* (*wrong)(double a, double b);
};

const char* fine(double, double) { return ""; }
const char* quotient(double a, double b) {
  if (b == 0) return a == 0 ? "0 divided by 0" : "division by 0";
  if (std::isinf(a) && std::isinf(b)) return "infinity divided by infinity";
  return "";
}
const char* product(double a, double b) {
  return (a == 0 && std::isinf(b)) || (b == 0 && std::isinf(a)) ? "0 times infinity" : "";
}
const char* logarithm(double a, double) { return a == 0 ? "log of 0" : a < 0 ? "log of a negative number" : ""; }
const char* root(double a, double) { return a < 0 ? "square root of a negative number" : ""; }
const char* opposite_sum(double a, double b) {
  return std::isinf(a) && std::isinf(b) && (a > 0) != (b > 0) ? "inf and -inf added" : "";
}
const char* equal_difference(double a, double b) {
  return std::isinf(a) && std::isinf(b) && (a > 0) == (b > 0) ? "infinity subtracted from itself" : "";
}
const char* power(double a, double b) {
  if (a == 0 && b < 0) return "0 to a negative power";
  return a < 0 && b != std::floor(b) ? "a negative number to a power that is not whole" : "";
}
const char* arc(double a, double) { return std::fabs(a) > 1 ? "outside of -1 to 1" : ""; }
const char* area(double a, double) { return std::fabs(a) >= 1 ? "not between -1 and 1" : ""; }

const std::unordered_map<std::string, Formula>& formulas() {
  static const Formula kLog = {1, [](double a, double) { return std::log(a); }, logarithm};
  static const Formula kDiv = {2, [](double a, double b) { return a / b; }, quotient};
  static const Formula kMul = {2, [](double a, double b) { return a * b; }, product};
  static const Formula kAdd = {2, [](double a, double b) { return a + b; }, opposite_sum};
  static const Formula kSub = {2, [](double a, double b) { return a - b; }, equal_difference};
  static const Formula kExp = {1, [](double a, double) { return std::exp(a); }, fine};
  static const Formula kPow = {2, [](double a, double b) { return std::pow(a, b); }, power};
  static const Formula kSqrt = {1, [](double a, double) { return std::sqrt(a); }, root};
  static const Formula kCast = {1, [](double a, double) { return a; }, fine};
  static const Formula kReciprocal = {1, [](double a, double) { return 1 / a; },
                                      [](double a, double) { return a == 0 ? "division by 0" : ""; }};
  static const Formula kSquare = {1, [](double a, double) { return a * a; }, fine};
  static const Formula kRsqrt = {
      1, [](double a, double) { return 1 / std::sqrt(a); },
      [](double a, double b) { return a == 0 ? "1 divided by the square root of 0" : root(a, b); }};
  static const Formula kSqrtGrad = {2, [](double y, double dy) { return dy / 2 / y; },
                                    [](double y, double dy) { return quotient(dy, y); }};
  static const std::unordered_map<std::string, Formula> kFormulas = {
      {"log", kLog},
      {"log2", {1, [](double a, double) { return std::log2(a); }, logarithm}},
      {"log10", {1, [](double a, double) { return std::log10(a); }, logarithm}},
      {"log1p",
       {1, [](double a, double) { return std::log1p(a); },
        [](double a, double) { return a == -1  ? "log1p of -1"
                                      : a < -1 ? "log1p of less than -1"
                                               : ""; }}},
      {"div", kDiv},
      {"realdiv", kDiv},
      {"addcdiv", kDiv},  // of its second and third operand
      {"divide", kDiv},
      {"truedivide", kDiv},
      {"divnonan", kDiv},
      {"mul", kMul},
      {"multiply", kMul},
      {"muls", kMul},
      {"add", kAdd},
      {"addv2", kAdd},
      {"adds", kAdd},
      {"addext", kAdd},
      {"sub", kSub},
      {"subext", kSub},
      {"subtract", kSub},
      {"rsub", {2, [](double a, double b) { return b - a; }, equal_difference}},
      {"exp", kExp},
      {"exp2", {1, [](double a, double) { return std::exp2(a); }, fine}},
      {"expm1", {1, [](double a, double) { return std::expm1(a); }, fine}},
      {"sinh", {1, [](double a, double) { return std::sinh(a); }, fine}},
      {"cosh", {1, [](double a, double) { return std::cosh(a); }, fine}},
      {"pow", kPow},
      {"power", kPow},
      {"square", kSquare},
      {"sqrt", kSqrt},
      {"erfinv",
       {1, [](double, double) { return HUGE_VAL; },
        [](double a, double) {
          return std::fabs(a) == 1 ? "erfinv of 1 or -1" : std::fabs(a) > 1 ? "erfinv of more than 1" : "";
        }}},
      {"rsqrt", kRsqrt},
      {"sqrtgrad", kSqrtGrad},
      {"reciprocal", kReciprocal},
      {"inv", kReciprocal},
      {"to", kCast},
      {"tocopy", kCast},
      {"cast", kCast},
      {"copy", {2, [](double, double b) { return b; }, fine}},
      {"type", kCast},
      {"half", kCast},
      {"bfloat16", kCast},
      {"acos", {1, [](double a, double) { return std::acos(a); }, arc}},
      {"asin", {1, [](double a, double) { return std::asin(a); }, arc}},
      {"arccos", {1, [](double a, double) { return std::acos(a); }, arc}},
      {"arcsin", {1, [](double a, double) { return std::asin(a); }, arc}},
      {"atanh", {1, [](double a, double) { return std::atanh(a); }, area}},
      {"acosh",
       {1, [](double a, double) { return std::acosh(a); },
        [](double a, double) { return a < 1 ? "acosh of less than 1" : ""; }}},
      {"logit",
       {1, [](double a, double) { return std::log(a / (1 - a)); },
        [](double a, double) { return a <= 0 || a >= 1 ? "logit of a number not between 0 and 1" : ""; }}},
      {"xlogy",
       {2, [](double a, double b) { return a == 0 ? 0 : a * std::log(b); },
        [](double, double b) { return b < 0    ? "log of a negative number"
                                      : b == 0 ? "log of 0"
                                               : ""; }}},
      {"fmod",
       {2, [](double a, double b) { return std::fmod(a, b); },
        [](double, double b) { return b == 0 ? "remainder of a division by 0" : ""; }}},
      {"remainder",
       {2, [](double a, double b) { return std::remainder(a, b); },
        [](double, double b) { return b == 0 ? "remainder of a division by 0" : ""; }}},
  };
  return kFormulas;
}

// The second operand if it is an argument of the call and not a tensor.
std::optional<double> second_number(const OpValues& values) {
  for (const char* name : {"exponent", "other", "scalar", "y", "value"}) {
    if (const auto number = values.number(name)) return number;
  }
  return std::nullopt;
}

struct Operands {
  const SlotValues* first = nullptr;
  const SlotValues* second = nullptr;
  std::optional<double> number;  // in place of the second
  double scale = 1;              // of the second: `alpha`
};

std::optional<Operands> operands_of(OpValues& values, const Formula& formula) {
  Operands operands;
  // For `_foreach_add_(list, list)` the k-th result belongs to the k-th of each list.
  const bool is_list = values.op().op_type.find("foreach") != std::string_view::npos;
  std::uint32_t inputs = 0, outputs = 0;
  for (const CatalogTensor& tensor : values.op().tensors) (tensor.is_input ? inputs : outputs) += 1;
  const std::uint32_t skip = values.type().ends_with("addcdiv") ? 1 : 0;
  const std::uint32_t size = is_list ? outputs : 1;  // of a list
  const std::uint32_t of_list = is_list && values.output() != nullptr ? values.output()->slot : 0;
  const std::uint32_t first = of_list + skip * size;
  const std::uint32_t second = !is_list || inputs >= (2 + skip) * size ? first + size : inputs - 1;
  operands.first = values.input_values(first);
  if (operands.first == nullptr) return std::nullopt;
  if (formula.operands == 1) return operands;
  operands.second = values.input(second) != nullptr ? values.input_values(second) : nullptr;
  if (values.input(second) == nullptr || inputs <= size) operands.number = second_number(values);
  if (operands.second == nullptr && !operands.number) return std::nullopt;
  operands.scale = values.number("alpha").value_or(1);
  return operands;
}

std::string of(const SlotValues& operand, const Position& position) {
  const CatalogTensor& tensor = operand.tensor();
  const double value = operand.broadcast_at(position);
  if (tensor.constant) return number_text(value);
  return fmt::format("{}{} = {}", slot_name(true, tensor.slot), position_text(operand.broadcast(position)),
                     number_text(value));
}

// "input.0[3] = 2, input.1[3] = 0"
std::string text_of(const Operands& operands, const Formula& formula, const Position& place) {
  std::string text = of(*operands.first, place);
  if (formula.operands == 1) return text;
  return text + ", " + (operands.number ? number_text(*operands.number) : of(*operands.second, place));
}

// A number of the program's code becomes an infinity before the kernel sees it: float32 tensors take it as float32.
std::string too_large_number(const OpValues& values, const Operands& operands) {
  if (values.output_type() == DType::float64 || largest_of(values.output_type()) == 0) return "";
  std::optional<double> number = operands.number;
  if (operands.second != nullptr && operands.second->tensor().constant) number = operands.second->tensor().constant;
  if (!number || !std::isfinite(*number) || std::fabs(*number) <= FLT_MAX) return "";
  return fmt::format("the number {} is more than float32 holds and becomes an infinity", number_text(*number));
}

// Why these operands give the value in the output at `place`.
void judge(OpValues& values, const Formula& formula, const Operands& operands, const Position& place, Cause& cause) {
  const double a = operands.first->broadcast_at(place);
  const double b = formula.operands == 1 ? 0
                   : operands.number     ? *operands.number
                                         : operands.second->broadcast_at(place);
  const double true_value = formula.value(a, operands.scale * b);
  const std::string wrong = formula.wrong(a, operands.scale * b);
  const std::string text = text_of(operands, formula, place);
  cause.numbers.push_back({"offending input", wrong.empty() || formula.operands == 1 ? a : b});
  if (const std::string number = formula.operands == 2 ? too_large_number(values, operands) : ""; !number.empty()) {
    cause.why = fmt::format("{}: {}", number, text);
    cause.overflow = true;
    return;
  }
  if (!wrong.empty()) {
    cause.why = fmt::format("{}: {}", wrong, text);
  } else if (std::isfinite(true_value) && overflows(values.output_type(), true_value)) {
    cause.why = fmt::format("{} of {} is {}", values.op().op_type, text, number_text(true_value));
    tell_overflow(values.output_type(), true_value, cause);
  } else if (std::isinf(true_value) && std::isfinite(a) && std::isfinite(b)) {
    cause.why = fmt::format("{} of {} is more than any type holds", values.op().op_type, text);
    cause.overflow = true;
  } else if (std::isfinite(true_value)) {
    cause.impossible = true;
    cause.explained = false;
    cause.why = fmt::format("what was recorded of its inputs gives {} at {}, not {}", number_text(true_value),
                            place.empty() ? "its one element" : position_text(place),
                            number_text(values.output_values()->at(place)));
  } else {
    cause.why = text;
  }
}

}  // namespace

bool elementwise_cause(OpValues& values, BadKind bad, Cause& cause) {
  std::string type = values.type();
  if (type.starts_with("foreach")) type = type.substr(7);
  const auto found = formulas().find(type);
  if (found == formulas().end()) return false;
  const Formula& formula = found->second;
  const SlotValues* output = values.output_values();
  const std::optional<Operands> operands = operands_of(values, formula);
  if (output == nullptr || !operands) return false;
  const std::vector<Position> places =
      output->find(bad == BadKind::nan ? SlotValues::Want::nan : SlotValues::Want::inf, kElementsShown);
  if (places.empty()) return false;
  cause.explained = true;
  judge(values, formula, *operands, places.front(), cause);
  for (const Position& place : places) {
    cause.evidence.push_back(fmt::format("{} -> {}{} = {}", text_of(*operands, formula, place),
                                         slot_name(false, values.output()->slot), position_text(place),
                                         number_text(output->at(place))));
  }
  return true;
}

}  // namespace sonde
