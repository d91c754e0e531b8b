// Operators with numbers of their call: powers, bounds, comparisons, triangles, running sums.

#include <algorithm>
#include <cmath>

#include "ask/relations/known_functions.h"
#include "read/operators/op_attributes.h"

namespace sonde {
namespace {

void add_of_each(KnownFunctions& all, const std::function<double(double)>& function) {
  add_function(all, [function](const DenseInputs& in) {
    return std::optional(Dense{in[0]->shape, mapped(in[0]->values, function)});
  });
}

void add_powers(KnownFunctions& all, const CatalogOp& op) {
  if (const auto exponent = number_in(op, "exponent"))
    add_of_each(all, [c = *exponent](double x) { return std::pow(x, c); });
  if (const auto base = number_in(op, "self")) add_of_each(all, [c = *base](double x) { return std::pow(c, x); });
}

void add_bounds(KnownFunctions& all, const CatalogOp& op, std::string_view type) {
  const bool is_relu6 = type == "relu6";
  const double least = is_relu6 ? 0 : number_in(op, "min").value_or(-INFINITY),
               most = is_relu6 ? 6 : number_in(op, "max").value_or(INFINITY);
  if (least <= most) add_of_each(all, [=](double x) { return std::clamp(x, least, most); });
}

void add_comparisons(KnownFunctions& all, std::string_view type, std::size_t inputs, std::optional<double> number) {
  double (*function)(double, double) = nullptr;
  if (type == "eq") function = [](double a, double b) { return a == b ? 1.0 : 0.0; };
  if (type == "ne") function = [](double a, double b) { return a != b ? 1.0 : 0.0; };
  if (type == "lt") function = [](double a, double b) { return a < b ? 1.0 : 0.0; };
  if (type == "le") function = [](double a, double b) { return a <= b ? 1.0 : 0.0; };
  if (type == "gt") function = [](double a, double b) { return a > b ? 1.0 : 0.0; };
  if (type == "ge") function = [](double a, double b) { return a >= b ? 1.0 : 0.0; };
  if (type == "maximum") function = [](double a, double b) { return std::max(a, b); };
  if (type == "minimum") function = [](double a, double b) { return std::min(a, b); };
  if (type == "and" || type == "bitwiseand" || type == "logicaland")
    function = [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; };
  if (function == nullptr) return;
  if (inputs == 2) add_function(all, [=](const DenseInputs& in) { return both_by(*in[0], *in[1], function); });
  if (inputs == 1) add_of_each(all, [=, c = number.value_or(0)](double x) { return function(x, c); });
}

// Above a diagonal, or below it.
void add_triangle(KnownFunctions& all, double diagonal, bool is_upper) {
  add_function(all, [=](const DenseInputs& in) -> std::optional<Dense> {
    if (in[0]->shape.size() < 2) return std::nullopt;
    Dense y = *in[0];
    const auto columns = static_cast<std::size_t>(y.size(1)), rows = static_cast<std::size_t>(y.size(2));
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      const double over = static_cast<double>(i % columns) - static_cast<double>(i / columns % rows);
      if (is_upper ? over < diagonal : over > diagonal) y.values[i] = 0;
    }
    return y;
  });
}

void add_running_sums(KnownFunctions& all, const Dense& x) {
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    if (x.shape[axis] < 2) continue;
    add_function(all, [axis](const DenseInputs& in) -> std::optional<Dense> {
      if (in[0]->shape.size() <= axis) return std::nullopt;
      Dense y = *in[0];
      const std::size_t stride = strides_of(y.shape)[axis];
      for (std::size_t i = 0; i < y.values.size(); ++i) {
        if (i / stride % static_cast<std::size_t>(y.shape[axis]) > 0) y.values[i] += y.values[i - stride];
      }
      return y;
    });
  }
}

}  // namespace

void add_with_numbers(KnownFunctions& all, const CatalogOp& op, std::string_view type, const DenseInputs& inputs,
                      std::optional<double> number) {
  add_comparisons(all, type, inputs.size(), number);
  if (inputs.size() == 2 && type == "outer") {
    add_function(all, [](const DenseInputs& in) {
      const Dense rows{{static_cast<std::int64_t>(in[0]->values.size()), 1}, in[0]->values};
      return both_by(rows, *in[1], std::multiplies<>());
    });
  }
  if (inputs.size() != 1) return;
  if (type == "pow") add_powers(all, op);
  if (type == "clamp" || type == "clampmin" || type == "clampmax" || type == "relu6") add_bounds(all, op, type);
  if (type == "triu" || type == "tril") add_triangle(all, number_in(op, "diagonal").value_or(0), type == "triu");
  if (type == "cumsum") add_running_sums(all, *inputs[0]);
  if (type == "bitwisenot" || type == "logicalnot") add_of_each(all, [](double x) { return x != 0 ? 0.0 : 1.0; });
  if (type == "leakyrelu")
    add_of_each(all,
                [slope = number_in(op, "negative_slope").value_or(0.01)](double x) { return x < 0 ? slope * x : x; });
  // In an evaluation, it drops nothing.
  if (type == "dropout") add_of_each(all, [](double x) { return x; });
}

}  // namespace sonde
