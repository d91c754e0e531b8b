// Formulas of ops whose result at one place depends on their inputs at that place.
#pragma once

#include <string_view>

namespace sonde {

struct Formula {
  int operands;
  double (*value)(double a, double b);
  // The error in these operands; empty if there is none, so that only the result may be too large.
  const char* (*wrong)(double a, double b);
};

// The formula of an op, by its bare type without "foreach"; null if it has none.
const Formula* formula_of(std::string_view type);

}  // namespace sonde
