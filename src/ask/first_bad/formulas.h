// Formulas of ops whose result at one place depends on their inputs at that place.
#pragma once

#include <string_view>

namespace sonde {

// Why operands have no finite result.
struct Fault {
  constexpr Fault(const char* what = "", bool is_by_zero = false, bool is_zero = false)
      : text(what), divides_by_zero(is_by_zero), makes_nan_of_zero(is_zero) {}

  const char* text;        // empty: they have one, or it is only too large
  bool divides_by_zero;    // an operand that is 0
  bool makes_nan_of_zero;  // 0 divided by 0, 0 times infinity
};

struct Formula {
  int operands;
  double (*value)(double a, double b);
  Fault (*fault)(double a, double b);
  bool first_at_fault = false;  // of two operands: that of a power
};

// The formula of an op, by its bare type without "foreach"; null if it has none.
const Formula* formula_of(std::string_view type);

}  // namespace sonde
