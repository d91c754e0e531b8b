// Operators of one or two tensors, element by element.

#include <algorithm>
#include <cmath>

#include "ask/relations/known_functions.h"

namespace sonde {

void add_elementwise(KnownFunctions& all, std::string_view type, std::optional<double> number) {
  const auto of_one = [&](const auto& function) {
    add_function(all, [function](const DenseInputs& in) {
      return std::optional(Dense{in[0]->shape, mapped(in[0]->values, function)});
    });
  };
  const auto of_two = [&](const auto& function) {
    add_function(all, [function](const DenseInputs& in) {
      return in.size() < 2 ? both_by(*in[0], *in[0], function) : both_by(*in[0], *in[1], function);
    });
  };
  for (const auto& [name, function] : bending_functions()) {
    const bool is_it = name == type || (type == "gelu" && name == "gelu of tanh");
    if (is_it) of_one(function);
  }
  const auto either = [&](const auto& function) {
    if (number) {
      of_one([function, c = *number](double x) { return function(x, c); });
      of_one([function, c = *number](double x) { return function(c, x); });
    } else {
      of_two(function);
    }
  };
  if (type == "add") either(std::plus<>());
  if (type == "mul") either(std::multiplies<>());
  if (type == "sub") either(std::minus<>());
  if (type == "rsub") either([](double a, double b) { return b - a; });
  if (type == "div") either(std::divides<>());
  if (type == "pow") either([](double a, double b) { return std::pow(a, b); });
}

}  // namespace sonde
