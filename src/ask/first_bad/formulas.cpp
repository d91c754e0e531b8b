#include "ask/first_bad/formulas.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace sonde {
namespace {

Fault fine(double, double) { return ""; }
Fault quotient(double a, double b) {
  if (b == 0) return a == 0 ? Fault("0 divided by 0", true, true) : Fault("division by 0", true);
  if (std::isinf(a) && std::isinf(b)) return "infinity divided by infinity";
  return "";
}
Fault product(double a, double b) {
  const bool is_of_zero = (a == 0 && std::isinf(b)) || (b == 0 && std::isinf(a));
  return is_of_zero ? Fault("0 times infinity", false, true) : Fault();
}
Fault logarithm(double a, double) { return a == 0 ? "log of 0" : a < 0 ? "log of a negative number" : ""; }
Fault root(double a, double) { return a < 0 ? "square root of a negative number" : ""; }
Fault opposite_sum(double a, double b) {
  return std::isinf(a) && std::isinf(b) && (a > 0) != (b > 0) ? "inf and -inf added" : "";
}
Fault equal_difference(double a, double b) {
  return std::isinf(a) && std::isinf(b) && (a > 0) == (b > 0) ? "infinity subtracted from itself" : "";
}
Fault power(double a, double b) {
  if (a == 0 && b < 0) return "0 to a negative power";
  return a < 0 && b != std::floor(b) ? "a negative number to a power that is not whole" : "";
}
// The gamma function and its derivatives, and zeta as their sum.
Fault gamma_pole(double a, double) {
  if (a == 0) return "the gamma function has a pole at 0";
  return a < 0 && a == std::floor(a) ? "the gamma function has a pole at each whole number below 0" : "";
}
Fault arc(double a, double) { return std::fabs(a) > 1 ? "outside of -1 to 1" : ""; }
Fault area(double a, double) {
  return std::fabs(a) > 1 ? "not between -1 and 1" : std::fabs(a) == 1 ? "atanh has a pole at 1 and -1" : "";
}

constexpr Formula kLog = {1, [](double a, double) { return std::log(a); }, logarithm};
constexpr Formula kDiv = {2, [](double a, double b) { return a / b; }, quotient};
constexpr Formula kMul = {2, [](double a, double b) { return a * b; }, product};
constexpr Formula kAdd = {2, [](double a, double b) { return a + b; }, opposite_sum};
constexpr Formula kSub = {2, [](double a, double b) { return a - b; }, equal_difference};
constexpr Formula kExp = {1, [](double a, double) { return std::exp(a); }, fine};
constexpr Formula kPow = {2, [](double a, double b) { return std::pow(a, b); }, power, true};
constexpr Formula kSqrt = {1, [](double a, double) { return std::sqrt(a); }, root};
constexpr Formula kCast = {1, [](double a, double) { return a; }, fine};
constexpr Formula kReciprocal = {1, [](double a, double) { return 1 / a; },
                                 [](double a, double) { return a == 0 ? Fault("division by 0", true) : Fault(); }};
// Its value is asked for at a pole alone, or far from all of them.
constexpr Formula kDigamma = {
    1, [](double a, double) { return gamma_pole(a, 0).text[0] != 0 ? HUGE_VAL : std::log(std::fabs(a)); }, gamma_pole};
constexpr Formula kSquare = {1, [](double a, double) { return a * a; }, fine};
constexpr Formula kRsqrt = {
    1, [](double a, double) { return 1 / std::sqrt(a); },
    [](double a, double b) { return a == 0 ? Fault("1 divided by the square root of 0") : root(a, b); }};
constexpr Formula kSqrtGrad = {2, [](double y, double dy) { return dy / 2 / y; },
                               [](double y, double dy) { return quotient(dy, y); }};

struct NamedFormula {
  std::string_view type;
  Formula formula;
};
constexpr NamedFormula kFormulas[] = {
    {"log", kLog},
    {"log2", {1, [](double a, double) { return std::log2(a); }, logarithm}},
    {"log10", {1, [](double a, double) { return std::log10(a); }, logarithm}},
    {"log1p",
     {1, [](double a, double) { return std::log1p(a); },
      [](double a, double) -> Fault { return a == -1  ? "log1p of -1"
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
      [](double a, double) -> Fault {
        return std::fabs(a) == 1 ? "erfinv of 1 or -1" : std::fabs(a) > 1 ? "erfinv of more than 1" : "";
      }}},
    {"lgamma", {1, [](double a, double) { return std::lgamma(a); }, gamma_pole}},
    {"digamma", kDigamma},
    {"polygamma", kDigamma},
    {"specialndtri",
     {1, [](double, double) { return HUGE_VAL; },
      [](double a, double) -> Fault { return a <= 0 || a >= 1 ? "ndtri of a number not between 0 and 1" : ""; }}},
    {"specialentr",
     {1, [](double a, double) { return a == 0 ? 0 : -a * std::log(a); },
      [](double a, double) -> Fault { return a < 0 ? "entr of a negative number" : ""; }}},
    {"specialxlog1py",
     {2, [](double a, double b) { return a == 0 ? 0 : a * std::log1p(b); },
      [](double, double b) -> Fault { return b == -1  ? "log1p of -1"
                                             : b < -1 ? "log1p of less than -1"
                                                      : ""; }}},
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
      [](double a, double) -> Fault { return a < 1 ? "acosh of less than 1" : ""; }}},
    {"logit",
     {1, [](double a, double) { return std::log(a / (1 - a)); },
      [](double a, double) -> Fault { return a <= 0 || a >= 1 ? "logit of a number not between 0 and 1" : ""; }}},
    {"xlogy",
     {2, [](double a, double b) { return a == 0 ? 0 : a * std::log(b); },
      [](double, double b) -> Fault { return b < 0    ? "log of a negative number"
                                             : b == 0 ? "log of 0"
                                                      : ""; }}},
    {"fmod",
     {2, [](double a, double b) { return std::fmod(a, b); },
      [](double, double b) -> Fault { return b == 0 ? "remainder of a division by 0" : ""; }}},
    {"remainder",
     {2, [](double a, double b) { return std::remainder(a, b); },
      [](double, double b) -> Fault { return b == 0 ? "remainder of a division by 0" : ""; }}},
};

}  // namespace

const Formula* formula_of(std::string_view type) {
  const NamedFormula* found = std::ranges::find(kFormulas, type, &NamedFormula::type);
  return found == std::end(kFormulas) ? nullptr : &found->formula;
}

}  // namespace sonde
