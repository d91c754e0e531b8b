// Operators that add up: norms, attention, products, sums, softmax.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "ask/relations/known_functions.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

Dense normalised(const Dense& x, bool is_centred, double epsilon) {
  const auto width = static_cast<std::size_t>(x.size(1));
  Dense y = x;
  for (std::size_t row = 0; row < x.values.size(); row += width) {
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < width && is_centred; ++i) mean += x.values[row + i] / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i)
      squares += std::pow(x.values[row + i] - mean, 2) / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i)
      y.values[row + i] = (x.values[row + i] - mean) / std::sqrt(squares + epsilon);
  }
  return y;
}

void add_norms(KnownFunctions& all, std::string_view type, double epsilon) {
  const bool is_centred = type == "layernorm";
  if (!is_centred && type != "rmsnorm") return;
  add_function(all, [=](const DenseInputs& in) -> std::optional<Dense> {
    if (in[0]->shape.empty()) return std::nullopt;
    std::optional<Dense> y = normalised(*in[0], is_centred, epsilon);
    if (in.size() > 1) y = both_by(*y, *in[1], std::multiplies<>());
    return in.size() > 2 && y ? both_by(*y, *in[2], std::plus<>()) : y;
  });
}

// Keys or values that several heads share, each as often as queries need it.
Dense with_heads_of(const Dense& queries, const Dense& shared) {
  constexpr std::size_t kHeads = 3;  // from the end
  if (queries.shape.size() < kHeads || shared.shape.size() != queries.shape.size()) return shared;
  const std::int64_t heads = queries.size(kHeads), own = shared.size(kHeads);
  if (own < 1 || heads <= own || heads % own != 0) return shared;
  const auto times = static_cast<std::size_t>(heads / own);
  const auto width = static_cast<std::size_t>(shared.size(1) * shared.size(2));
  Dense repeated{shared.shape, {}};
  repeated.shape[repeated.shape.size() - kHeads] = heads;
  for (std::size_t first = 0; first < shared.values.size(); first += width) {
    for (std::size_t i = 0; i < times; ++i) {
      const auto begin = shared.values.begin() + static_cast<std::ptrdiff_t>(first);
      repeated.values.insert(repeated.values.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
    }
  }
  return repeated;
}

// Of queries, keys and values, perhaps with a mask of numbers.
void add_attention(KnownFunctions& all, double scale) {
  for (const bool is_causal : {false, true}) {
    add_function(all, [=](const DenseInputs& in) -> std::optional<Dense> {
      if (in[1]->shape.size() < 2) return std::nullopt;
      std::optional<Dense> scores = product(*in[0], turned(with_heads_of(*in[0], *in[1])));
      if (!scores) return std::nullopt;
      const double factor = scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(in[0]->size(1)));
      std::ranges::for_each(scores->values, [&](double& value) { value *= factor; });
      if (in.size() > 3) scores = both_by(*scores, *in[3], std::plus<>());
      if (!scores) return std::nullopt;
      const auto columns = static_cast<std::size_t>(scores->size(1)), rows = static_cast<std::size_t>(scores->size(2));
      for (std::size_t i = 0; i < scores->values.size() && is_causal; ++i) {
        if (i % columns > i / columns % rows) scores->values[i] = -INFINITY;
      }
      return product(softmax_over(*scores, scores->shape.size() - 1, false), with_heads_of(*in[0], *in[2]));
    });
  }
}

void add_products(KnownFunctions& all, std::string_view type, std::size_t inputs, double alpha) {
  const auto plus = [](const std::optional<Dense>& y, const Dense& bias) {
    return y ? both_by(*y, bias, std::plus<>()) : y;
  };
  if (type == "linear") {
    add_function(all, [inputs, plus](const DenseInputs& in) {
      const std::optional<Dense> y = product(*in[0], turned(*in[1]));
      return inputs > 2 ? plus(y, *in[2]) : y;
    });
  } else if (type == "addmm" || type == "baddbmm") {
    const std::size_t first = inputs > 2 ? 1 : 0;  // with a beta of 0 what is added is not read
    const auto times_alpha = [alpha, first](const DenseInputs& in) {
      std::optional<Dense> y = product(*in[first], *in[first + 1]);
      if (y) std::ranges::for_each(y->values, [&](double& value) { value *= alpha; });
      return y;
    };
    if (first > 0)
      add_function(all, [plus, times_alpha](const DenseInputs& in) { return plus(times_alpha(in), *in[0]); });
    add_function(all, times_alpha);
  } else if (type == "matmul" || type == "mm" || type == "bmm") {
    add_function(all, [](const DenseInputs& in) { return product(*in[0], *in[1]); });
  }
}

// One axis, two, or all of them.
std::vector<std::vector<std::size_t>> axes_to_reduce(const Dense& x) {
  std::vector<std::vector<std::size_t>> choices;
  for (std::size_t first = 0; first < x.shape.size(); ++first) {
    choices.push_back({first});
    for (std::size_t second = first + 1; second < x.shape.size(); ++second) choices.push_back({first, second});
  }
  std::vector<std::size_t> every(x.shape.size());
  std::iota(every.begin(), every.end(), std::size_t{0});
  choices.push_back(every);
  return choices;
}

// The mean square of the distances from the mean, or its root: divided by the number of elements, or by one less.
std::optional<Dense> spread_over(const Dense& x, const std::vector<std::size_t>& axes, double correction,
                                 bool is_root) {
  std::vector<double> squares(x.values.size());
  std::ranges::transform(x.values, squares.begin(), [](double value) { return value * value; });
  const Dense mean = reduced_over(x, axes, Reduced::mean);
  Dense spread = reduced_over({x.shape, std::move(squares)}, axes, Reduced::mean);
  if (spread.values.empty()) return std::nullopt;
  const double count = static_cast<double>(x.values.size()) / static_cast<double>(spread.values.size());
  if (count <= correction) return std::nullopt;
  for (std::size_t i = 0; i < spread.values.size(); ++i) {
    const double variance = (spread.values[i] - mean.values[i] * mean.values[i]) * count / (count - correction);
    spread.values[i] = is_root ? std::sqrt(std::max(variance, 0.0)) : variance;
  }
  return spread;
}

void add_spreads(KnownFunctions& all, std::string_view type, const Dense& x, const Dense& result) {
  if (type != "var" && type != "std") return;
  for (const std::vector<std::size_t>& axes : axes_to_reduce(x)) {
    for (const double correction : {0.0, 1.0}) {
      all.push_back({.apply = [axes, correction, is_root = type == "std",
                               shape = result.shape](const DenseInputs& in) -> std::optional<Dense> {
                       const std::optional<Dense> spread = spread_over(*in[0], axes, correction, is_root);
                       return spread ? std::optional(with_shape(*spread, shape)) : std::nullopt;
                     },
                     .axes = axes,
                     .reduces = {}});
    }
  }
}

void add_reductions(KnownFunctions& all, std::string_view type, const Dense& x, const Dense& result) {
  std::optional<Reduced> how;
  if (type == "sum") how = Reduced::sum;
  if (type == "mean") how = Reduced::mean;
  if (type == "amax" || type == "max") how = Reduced::largest;
  if (!how) return;
  for (const std::vector<std::size_t>& axes : axes_to_reduce(x)) {
    all.push_back({.apply = [axes, how = *how, shape = result.shape](const DenseInputs& in) -> std::optional<Dense> {
                     return with_shape(reduced_over(*in[0], axes, how), shape);
                   },
                   .axes = axes,
                   .reduces = how});
  }
}

// Along each axis that has several elements.
void add_softmax(KnownFunctions& all, const Dense& x, bool is_logarithm) {
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    if (x.shape[axis] <= 1) continue;
    all.push_back({.apply = [axis, is_logarithm](const DenseInputs& in) -> std::optional<Dense> {
                     return softmax_over(*in[0], axis, is_logarithm);
                   },
                   .axes = {axis},
                   .reduces = {},
                   .is_softmax = true,
                   .is_logarithm = is_logarithm});
  }
}

}  // namespace

void add_sums(KnownFunctions& all, const CatalogOp& op, const DenseInputs& inputs, const Dense& result) {
  const std::string type = bare_type(op.op_type);
  if (inputs.size() >= 2) add_products(all, type, inputs.size(), number_in(op, "alpha").value_or(1));
  add_norms(all, type, number_in(op, "eps").value_or(1e-5));
  if (type == "scaleddotproductattention" && inputs.size() >= 3) add_attention(all, number_in(op, "scale").value_or(0));
  if (const Attribute* equation = attribute_of(op, "equation"); equation && inputs.size() == 2)
    add_function(all, [text = equation->text](const DenseInputs& in) { return contracted(text, *in[0], *in[1]); });
  if (inputs.size() == 1) {
    add_reductions(all, type, *inputs[0], result);
    add_spreads(all, type, *inputs[0], result);
  }
  if (type == "softmax" || type == "logsoftmax") add_softmax(all, *inputs[0], type == "logsoftmax");
}

}  // namespace sonde
