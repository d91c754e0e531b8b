#include "ask/relations/recomputed.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <unordered_map>

#include "ask/relations/views.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

constexpr std::size_t kMostElementsAgain = 1 << 18, kMostTerms = 1 << 24;  // of a product

Dense with_shape(const Dense& x, std::vector<std::int64_t> shape) { return {std::move(shape), x.values}; }

std::vector<std::size_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * static_cast<std::size_t>(shape[i]);
  return strides;
}

std::optional<std::vector<std::int64_t>> common_shape(const Dense& a, const Dense& b) {
  std::vector<std::int64_t> shape(std::max(a.shape.size(), b.shape.size()));
  for (std::size_t i = 1; i <= shape.size(); ++i) {
    const std::int64_t mine = i <= a.shape.size() ? a.size(i) : 1, theirs = i <= b.shape.size() ? b.size(i) : 1;
    if (mine != theirs && mine != 1 && theirs != 1) return std::nullopt;
    shape[shape.size() - i] = mine == 1 ? theirs : mine;
  }
  return shape;
}

// The element of `x` that a broadcast to `shape` has at this place.
std::size_t place_in(const Dense& x, const std::vector<std::int64_t>& shape, std::size_t flat) {
  std::size_t place = 0, stride = 1;
  for (std::size_t i = 1; i <= shape.size(); ++i) {
    const auto size = static_cast<std::size_t>(shape[shape.size() - i]);
    const std::size_t at = flat % size;
    flat /= size;
    if (i > x.shape.size()) continue;
    if (x.size(i) != 1) place += at * stride;
    stride *= static_cast<std::size_t>(x.size(i));
  }
  return place;
}

std::optional<Dense> both_by(const Dense& a, const Dense& b, const auto& function) {
  const auto shape = common_shape(a, b);
  if (!shape || elements_of(*shape) > kMostElementsAgain) return std::nullopt;
  Dense result{*shape, std::vector<double>(elements_of(*shape))};
  for (std::size_t i = 0; i < result.values.size(); ++i)
    result.values[i] = function(a.values[place_in(a, *shape, i)], b.values[place_in(b, *shape, i)]);
  return result;
}

// The last two axes; those before are of a batch.
std::optional<Dense> product(const Dense& a, const Dense& b) {
  if (a.shape.size() < 2 || b.shape.size() < 2 || a.size(1) != b.size(2)) return std::nullopt;
  const Dense first{{a.shape.begin(), a.shape.end() - 2}, {}}, second{{b.shape.begin(), b.shape.end() - 2}, {}};
  const auto batch = common_shape(first, second);
  if (!batch) return std::nullopt;
  const auto rows = static_cast<std::size_t>(a.size(2)), inner = static_cast<std::size_t>(a.size(1)),
             columns = static_cast<std::size_t>(b.size(1)), batches = elements_of(*batch);
  if (batches * rows * columns > kMostElementsAgain || batches * rows * columns * inner > kMostTerms)
    return std::nullopt;
  std::vector<std::int64_t> shape = *batch;
  shape.insert(shape.end(), {a.size(2), b.size(1)});
  Dense result{std::move(shape), std::vector<double>(batches * rows * columns)};
  for (std::size_t k = 0; k < batches; ++k) {
    const double* x = a.values.data() + place_in(first, *batch, k) * rows * inner;
    const double* y = b.values.data() + place_in(second, *batch, k) * inner * columns;
    double* z = result.values.data() + k * rows * columns;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t l = 0; l < inner; ++l)
        for (std::size_t j = 0; j < columns; ++j) z[i * columns + j] += x[i * inner + l] * y[l * columns + j];
  }
  return result;
}

// "bqd,bkd->bqk" of two tensors.
std::optional<Dense> contracted(const std::string& equation, const Dense& a, const Dense& b) {
  std::string text;
  std::ranges::copy_if(equation, std::back_inserter(text), [](char c) { return c != ' '; });
  const std::size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || text.find('.') != std::string::npos)
    return std::nullopt;
  const std::string left = text.substr(0, comma), right = text.substr(comma + 1, arrow - comma - 1),
                    out = text.substr(arrow + 2);
  if (left.size() != a.shape.size() || right.size() != b.shape.size()) return std::nullopt;
  std::map<char, std::int64_t> sizes;
  const auto fits = [&](char name, std::int64_t size) { return sizes.try_emplace(name, size).first->second == size; };
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!fits(left[i], a.shape[i])) return std::nullopt;
  }
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (!fits(right[i], b.shape[i])) return std::nullopt;
  }
  std::string all = out;
  for (const auto& [name, size] : sizes) {
    if (out.find(name) == std::string::npos) all += name;
  }
  std::size_t terms = 1;
  for (const char name : all) terms *= static_cast<std::size_t>(sizes[name]);
  if (terms > kMostTerms) return std::nullopt;
  const auto steps = [&](const std::string& names, const std::vector<std::int64_t>& shape) {
    std::vector<std::size_t> found(all.size());
    const std::vector<std::size_t> strides = strides_of(shape);
    for (std::size_t i = 0; i < names.size(); ++i) found[all.find(names[i])] += strides[i];
    return found;
  };
  Dense result;
  for (const char name : out) result.shape.push_back(sizes[name]);
  result.values.resize(elements_of(result.shape));
  const auto of_a = steps(left, a.shape), of_b = steps(right, b.shape), of_out = steps(out, result.shape);
  std::vector<std::size_t> at(all.size());
  for (std::size_t term = 0; term < terms; ++term) {
    std::size_t x = 0, y = 0, z = 0, rest = term;
    for (std::size_t i = all.size(); i-- > 0;) {
      const auto size = static_cast<std::size_t>(sizes[all[i]]);
      const std::size_t index = rest % size;
      rest /= size;
      x += index * of_a[i];
      y += index * of_b[i];
      z += index * of_out[i];
    }
    result.values[z] += a.values[x] * b.values[y];
  }
  return result;
}

using Candidates = std::vector<KnownFunction>;

void add(Candidates& all, DenseFunction function) {
  all.push_back({.apply = std::move(function), .axes = {}, .reduces = {}});
}

void add_moves(Candidates& all, const Dense& x, const Dense& result) {
  if (x.values.size() != result.values.size()) return;
  add(all, [shape = result.shape](const DenseInputs& in) { return with_shape(*in[0], shape); });
  for (const std::vector<std::size_t>& order : orders_of(x.shape.size())) {
    add(all,
        [order, shape = result.shape](const DenseInputs& in) { return with_shape(with_axes(*in[0], order), shape); });
  }
}

// Each element of the result is one of an input, or a number that none has.
void add_places(Candidates& all, const DenseInputs& inputs, const Dense& result) {
  struct Place {
    std::size_t input, at;
    bool is_only;
  };
  std::unordered_map<double, Place> places;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    for (std::size_t i = 0; i < inputs[k]->values.size(); ++i) {
      const auto [found, is_new] = places.try_emplace(inputs[k]->values[i], Place{k, i, true});
      if (!is_new) found->second.is_only = false;
    }
  }
  std::vector<Place> of;
  for (const double value : result.values) {
    const auto found = places.find(value);
    if (found != places.end() && !found->second.is_only) return;
    of.push_back(found == places.end() ? Place{inputs.size(), 0, true} : found->second);
  }
  add(all, [of = std::move(of), result](const DenseInputs& in) -> std::optional<Dense> {
    Dense moved = result;
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (of[i].input >= in.size()) continue;
      const std::vector<double>& from = in[of[i].input]->values;
      if (of[i].at >= from.size()) return std::nullopt;  // the inputs are of other sizes
      moved.values[i] = from[of[i].at];
    }
    return moved;
  });
}

// Indices `start` to `start + count` of an axis.
Dense part_of(const Dense& x, std::size_t axis, std::size_t start, std::size_t count) {
  const std::size_t stride = strides_of(x.shape)[axis], size = static_cast<std::size_t>(x.shape[axis]);
  Dense part{x.shape, {}};
  part.shape[axis] = static_cast<std::int64_t>(count);
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::size_t at = i / stride % size;
    if (at >= start && at < start + count) part.values.push_back(x.values[i]);
  }
  return part;
}

void add_parts(Candidates& all, const Dense& x, const Dense& result) {
  if (result.values.empty() || x.values.size() <= result.values.size()) return;
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    const auto size = static_cast<std::size_t>(x.shape[axis]);
    const std::size_t each = x.values.size() / size, count = result.values.size() / each;
    constexpr std::size_t kMostStarts = 64;
    if (each * count != result.values.size() || size > kMostStarts) continue;
    for (std::size_t start = 0; start + count <= size; ++start) {
      add(all, [=, shape = result.shape](const DenseInputs& in) -> std::optional<Dense> {
        return with_shape(part_of(*in[0], axis, start, count), shape);
      });
    }
  }
}

// The elements several times: as a whole, or along an axis of one.
void add_repeats(Candidates& all, const Dense& x, const Dense& result) {
  if (x.values.empty() || result.values.size() <= x.values.size()) return;
  add(all, [result](const DenseInputs& in) {
    return both_by(*in[0], Dense{result.shape, std::vector<double>(result.values.size())}, std::plus<>());
  });
  if (result.values.size() % x.values.size() != 0) return;
  add(all, [result](const DenseInputs& in) {
    Dense repeated = result;
    for (std::size_t i = 0; i < repeated.values.size(); ++i)
      repeated.values[i] = in[0]->values[i % in[0]->values.size()];
    return std::optional(repeated);
  });
}

void add_joins(Candidates& all, const Dense& result) {
  for (std::size_t axis = 0; axis < result.shape.size(); ++axis) {
    add(all, [axis, shape = result.shape](const DenseInputs& in) -> std::optional<Dense> {
      const std::size_t inner = strides_of(shape)[axis];
      std::size_t outer = 1;
      for (std::size_t i = 0; i < axis; ++i) outer *= static_cast<std::size_t>(shape[i]);
      Dense joined{shape, {}};
      for (std::size_t i = 0; i < outer; ++i) {
        for (const Dense* one : in) {
          const std::size_t size = one->values.size() / outer;
          if (size % inner != 0) return std::nullopt;
          const auto first = one->values.begin() + static_cast<std::ptrdiff_t>(i * size);
          joined.values.insert(joined.values.end(), first, first + static_cast<std::ptrdiff_t>(size));
        }
      }
      return joined.values.size() == elements_of(shape) ? std::optional(joined) : std::nullopt;
    });
  }
}

// NaN is none.
bool is_index(double value, std::int64_t size) { return value >= 0 && value < static_cast<double>(size); }

// Along an axis, by numbers of the shape of the result: `places`: to these, else from these.
void add_by_numbers(Candidates& all, const Dense& x, bool places) {
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    add(all, [axis, places](const DenseInputs& in) -> std::optional<Dense> {
      const Dense &base = *in[0], &ids = *in[1];
      if (ids.shape.size() != base.shape.size() || (places && in[2]->shape != ids.shape)) return std::nullopt;
      const std::vector<std::size_t> strides = strides_of(base.shape);
      Dense result = places ? base : ids;
      for (std::size_t flat = 0; flat < ids.values.size(); ++flat) {
        std::size_t at = 0, rest = flat;
        for (std::size_t i = ids.shape.size(); i-- > 0;) {
          const auto size = static_cast<std::size_t>(ids.shape[i]);
          const double index = i == axis ? ids.values[flat] : static_cast<double>(rest % size);
          rest /= size;
          if (!is_index(index, base.shape[i])) return std::nullopt;
          at += static_cast<std::size_t>(index) * strides[i];
        }
        (places ? result.values[at] : result.values[flat]) = places ? in[2]->values[flat] : base.values[at];
      }
      return result;
    });
  }
}

// Rows of the first input by the numbers of the second one.
std::optional<Dense> rows_of(const Dense& table, const Dense& ids) {
  if (table.shape.empty() || table.shape[0] == 0) return std::nullopt;
  const std::size_t width = table.values.size() / static_cast<std::size_t>(table.shape[0]);
  if (ids.values.size() * width > kMostElementsAgain) return std::nullopt;
  Dense result{ids.shape, {}};
  result.shape.insert(result.shape.end(), table.shape.begin() + 1, table.shape.end());
  for (double id : ids.values) {
    if (id < 0) id += static_cast<double>(table.shape[0]);
    if (!is_index(id, table.shape[0])) return std::nullopt;
    const auto first = table.values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(id) * width);
    result.values.insert(result.values.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  return result;
}

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

void add_norms(Candidates& all, std::string_view type, double epsilon) {
  const bool is_centred = type == "layernorm";
  if (!is_centred && type != "rmsnorm") return;
  add(all, [=](const DenseInputs& in) -> std::optional<Dense> {
    if (in[0]->shape.empty()) return std::nullopt;
    std::optional<Dense> y = normalised(*in[0], is_centred, epsilon);
    if (in.size() > 1) y = both_by(*y, *in[1], std::multiplies<>());
    return in.size() > 2 && y ? both_by(*y, *in[2], std::plus<>()) : y;
  });
}

// Of queries, keys and values, perhaps with a mask of numbers.
void add_attention(Candidates& all, double scale) {
  for (const bool is_causal : {false, true}) {
    add(all, [=](const DenseInputs& in) -> std::optional<Dense> {
      if (in[1]->shape.size() < 2) return std::nullopt;
      std::optional<Dense> scores = product(*in[0], turned(*in[1]));
      if (!scores) return std::nullopt;
      const double factor = scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(in[0]->size(1)));
      std::ranges::for_each(scores->values, [&](double& value) { value *= factor; });
      if (in.size() > 3) scores = both_by(*scores, *in[3], std::plus<>());
      if (!scores) return std::nullopt;
      const auto columns = static_cast<std::size_t>(scores->size(1)), rows = static_cast<std::size_t>(scores->size(2));
      for (std::size_t i = 0; i < scores->values.size() && is_causal; ++i) {
        if (i % columns > i / columns % rows) scores->values[i] = -INFINITY;
      }
      return product(softmax_over(*scores, scores->shape.size() - 1, false), *in[2]);
    });
  }
}

void add_products(Candidates& all, std::string_view type, std::size_t inputs, double alpha) {
  const auto plus = [](const std::optional<Dense>& y, const Dense& bias) {
    return y ? both_by(*y, bias, std::plus<>()) : y;
  };
  if (type == "linear") {
    add(all, [inputs, plus](const DenseInputs& in) {
      const std::optional<Dense> y = product(*in[0], turned(*in[1]));
      return inputs > 2 ? plus(y, *in[2]) : y;
    });
  } else if (type == "addmm" || type == "baddbmm") {
    add(all, [alpha](const DenseInputs& in) -> std::optional<Dense> {
      const std::optional<Dense> y = product(*in[1], *in[2]);
      return y ? both_by(*in[0], *y, [alpha](double bias, double value) { return bias + alpha * value; }) : y;
    });
    add(all, [alpha](const DenseInputs& in) {
      std::optional<Dense> y = product(*in[1], *in[2]);
      if (y) std::ranges::for_each(y->values, [&](double& value) { value *= alpha; });
      return y;
    });
  } else if (type == "matmul" || type == "mm" || type == "bmm") {
    add(all, [](const DenseInputs& in) { return product(*in[0], *in[1]); });
  }
}

void add_reductions(Candidates& all, std::string_view type, const Dense& x, const Dense& result) {
  std::optional<Reduced> how;
  if (type == "sum") how = Reduced::sum;
  if (type == "mean") how = Reduced::mean;
  if (type == "amax" || type == "max") how = Reduced::largest;
  if (!how) return;
  std::vector<std::vector<std::size_t>> choices;
  for (std::size_t first = 0; first < x.shape.size(); ++first) {
    choices.push_back({first});
    for (std::size_t second = first + 1; second < x.shape.size(); ++second) choices.push_back({first, second});
  }
  std::vector<std::size_t> every(x.shape.size());
  std::iota(every.begin(), every.end(), std::size_t{0});
  choices.push_back(every);
  for (const std::vector<std::size_t>& axes : choices) {
    all.push_back({.apply = [axes, how = *how, shape = result.shape](const DenseInputs& in) -> std::optional<Dense> {
                     return with_shape(reduced_over(*in[0], axes, how), shape);
                   },
                   .axes = axes,
                   .reduces = how});
  }
}

void add_elementwise(Candidates& all, std::string_view type, std::optional<double> number) {
  const auto of_one = [&](const auto& function) {
    add(all, [function](const DenseInputs& in) {
      return std::optional(Dense{in[0]->shape, mapped(in[0]->values, function)});
    });
  };
  const auto of_two = [&](const auto& function) {
    add(all, [function](const DenseInputs& in) {
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

// Elements that a mask chooses.
void add_masks(Candidates& all, std::string_view type, std::size_t inputs, double number) {
  const auto chosen = [](const Dense& mask, const Dense& yes, const Dense& no) -> std::optional<Dense> {
    const auto marked = both_by(mask, yes, [](double is, double value) { return is != 0 ? value : NAN; });
    const auto others = both_by(mask, no, [](double is, double value) { return is != 0 ? NAN : value; });
    if (!marked || !others) return std::nullopt;
    return both_by(*marked, *others, [](double a, double b) { return std::isnan(a) ? b : a; });
  };
  const Dense other{{1}, {number}};
  if (type == "maskedfill" && inputs == 2)
    add(all, [=](const DenseInputs& in) { return chosen(*in[1], other, *in[0]); });
  if (type != "where") return;
  if (inputs == 3) add(all, [=](const DenseInputs& in) { return chosen(*in[0], *in[1], *in[2]); });
  if (inputs != 2) return;
  add(all, [=](const DenseInputs& in) { return chosen(*in[0], *in[1], other); });
  add(all, [=](const DenseInputs& in) { return chosen(*in[0], other, *in[1]); });
}

std::vector<std::size_t> axes_with_elements(const std::vector<std::int64_t>& shape) {
  std::vector<std::size_t> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1) axes.push_back(i);
  }
  return axes;
}

}  // namespace

std::size_t elements_of(const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

bool is_hidden(double value) {
  constexpr double kHidden = 1e8;
  return !std::isfinite(value) || std::abs(value) >= kHidden;
}

bool is_nearly(const Dense& a, const Dense& b) {
  constexpr double kNearly = 1e-4;
  if (a.values.size() != b.values.size()) return false;
  double errors = 0, squares = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (is_hidden(a.values[i]) != is_hidden(b.values[i])) return false;
    if (is_hidden(b.values[i])) continue;
    errors += (a.values[i] - b.values[i]) * (a.values[i] - b.values[i]);
    squares += b.values[i] * b.values[i];
  }
  return errors <= kNearly * kNearly * squares;
}

const std::vector<std::pair<std::string_view, double (*)(double)>>& bending_functions() {
  static const std::vector<std::pair<std::string_view, double (*)(double)>> kFunctions{
      {"neg", [](double x) { return -x; }},
      {"exp", [](double x) { return std::exp(x); }},
      {"log", [](double x) { return std::log(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"reciprocal", [](double x) { return 1 / x; }},
      {"square", [](double x) { return x * x; }},
      {"sin", [](double x) { return std::sin(x); }},
      {"cos", [](double x) { return std::cos(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"relu", [](double x) { return std::max(x, 0.0); }},
      {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
      {"softplus", [](double x) { return std::log1p(std::exp(x)); }},
      {"gelu", [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
      {"gelu of tanh",
       [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }},
  };
  return kFunctions;
}

Dense softmax_over(const Dense& x, std::size_t axis, bool is_logarithm) {
  const std::vector<std::size_t> strides = strides_of(x.shape);
  const auto size = static_cast<std::size_t>(x.shape[axis]);
  const std::size_t stride = strides[axis];
  Dense result = x;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    if (i / stride % size != 0) continue;
    double largest = x.values[i], total = 0;
    for (std::size_t k = 0; k < size; ++k) largest = std::max(largest, x.values[i + k * stride]);
    for (std::size_t k = 0; k < size; ++k) total += std::exp(x.values[i + k * stride] - largest);
    for (std::size_t k = 0; k < size; ++k) {
      const double from = x.values[i + k * stride] - largest;
      result.values[i + k * stride] = is_logarithm ? from - std::log(total) : std::exp(from) / total;
    }
  }
  return result;
}

Dense reduced_over(const Dense& x, const std::vector<std::size_t>& axes, Reduced how) {
  Dense result;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (std::ranges::find(axes, i) == axes.end()) result.shape.push_back(x.shape[i]);
  }
  result.values.assign(elements_of(result.shape), how == Reduced::largest ? -INFINITY : 0);
  for (std::size_t flat = 0; flat < x.values.size(); ++flat) {
    std::size_t place = 0, stride = 1, rest = flat;
    for (std::size_t i = x.shape.size(); i-- > 0;) {
      const auto size = static_cast<std::size_t>(x.shape[i]);
      const std::size_t at = rest % size;
      rest /= size;
      if (std::ranges::find(axes, i) != axes.end()) continue;
      place += at * stride;
      stride *= size;
    }
    double& into = result.values[place];
    into = how == Reduced::largest ? std::max(into, x.values[flat]) : into + x.values[flat];
  }
  const double terms =
      static_cast<double>(x.values.size()) / static_cast<double>(std::max<std::size_t>(1, result.values.size()));
  if (how == Reduced::mean) std::ranges::for_each(result.values, [&](double& value) { value /= terms; });
  return result;
}

Dense with_axes(const Dense& x, const std::vector<std::size_t>& order) {
  const std::vector<std::size_t> strides = strides_of(x.shape);
  Dense result;
  for (const std::size_t axis : order) result.shape.push_back(x.shape[axis]);
  result.values.resize(x.values.size());
  for (std::size_t flat = 0; flat < result.values.size(); ++flat) {
    std::size_t from = 0, rest = flat;
    for (std::size_t i = order.size(); i-- > 0;) {
      const auto size = static_cast<std::size_t>(result.shape[i]);
      from += rest % size * strides[order[i]];
      rest /= size;
    }
    result.values[flat] = x.values[from];
  }
  return result;
}

Dense turned(const Dense& x) {
  std::vector<std::size_t> order(x.shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return with_axes(x, order);
}

const Dense* Recomputed::recorded(std::uint32_t tensor) {
  const auto [found, is_new] = recorded_.try_emplace(tensor);
  if (is_new) {
    const PoolValues values = pool_.values_of(tensor);
    if (values && static_cast<std::size_t>(values.view().elements()) <= kMostElementsAgain) {
      const TensorView whole = values.view();
      found->second = Dense{{whole.shape.begin(), whole.shape.end()}, all_values(whole)};
    }
  }
  return found->second ? &*found->second : nullptr;
}

DenseInputs Recomputed::inputs_of(std::uint32_t op) {
  DenseInputs inputs;
  for (const std::uint32_t input : pool_.ops[op].inputs) {
    const Dense* one = recorded(input);
    if (one == nullptr) return {};
    inputs.push_back(one);
  }
  return inputs;
}

const KnownFunction& Recomputed::function_of(std::uint32_t op, std::size_t output) {
  const auto [found, is_new] = functions_.try_emplace({op, output});
  if (is_new) found->second = find(op, output);
  return found->second;
}

KnownFunction Recomputed::find(std::uint32_t op, std::size_t output) {
  const DenseInputs inputs = inputs_of(op);
  const Dense* result = recorded(pool_.ops[op].outputs[output]);
  if (inputs.empty() || result == nullptr) return {};
  const std::string type = bare_type(pool_.catalog_op(op).op_type);
  Candidates all;
  if (moves_or_casts(pool_.op(op).kind) || pool_.op(op).kind == OpKind::copy) {
    if (inputs.size() == 2 && (type == "index" || type == "embedding")) {
      add(all, [](const DenseInputs& in) { return rows_of(*in[0], *in[1]); });
    }
    if (inputs.size() == 1) {
      add_moves(all, *inputs[0], *result);
      add_parts(all, *inputs[0], *result);
      add_repeats(all, *inputs[0], *result);
    }
    if (type == "cat" || type == "stack") add_joins(all, *result);
    add_places(all, inputs, *result);
  }
  if (inputs.size() <= 2) add_elementwise(all, type, number_read(pool_.op(op)));
  if (type == "scatter" && inputs.size() == 3) add_by_numbers(all, *inputs[0], true);
  if (type == "gather" && inputs.size() == 2) add_by_numbers(all, *inputs[0], false);
  const CatalogOp& call = pool_.catalog_op(op);
  if (type == "maskedfill" || type == "where") {
    // The number that it puts there, which not all dumps have, is one of the results.
    const std::size_t mask = type == "where" ? 0 : inputs.size() - 1;
    std::vector<double> numbers{number_read(pool_.op(op)).value_or(-INFINITY)};
    for (const double wanted : {1.0, 0.0}) {
      const auto at = std::ranges::find_if(inputs[mask]->values, [&](double is) { return (is != 0) == (wanted != 0); });
      const auto place = static_cast<std::size_t>(at - inputs[mask]->values.begin());
      if (place < result->values.size()) numbers.push_back(result->values[place]);
    }
    for (const double number : numbers) add_masks(all, type, inputs.size(), number);
  }
  if (inputs.size() >= 2) add_products(all, type, inputs.size(), number_in(call, "alpha").value_or(1));
  add_norms(all, type, number_in(call, "eps").value_or(1e-5));
  if (type == "scaleddotproductattention" && inputs.size() >= 3)
    add_attention(all, number_in(call, "scale").value_or(0));
  if (const Attribute* equation = attribute_of(pool_.catalog_op(op), "equation"); equation && inputs.size() == 2)
    add(all, [text = equation->text](const DenseInputs& in) { return contracted(text, *in[0], *in[1]); });
  if (inputs.size() == 1) add_reductions(all, type, *inputs[0], *result);
  if (type == "softmax" || type == "logsoftmax") {
    for (const std::size_t axis : axes_with_elements(inputs[0]->shape)) {
      const bool is_logarithm = type == "logsoftmax";
      all.push_back({.apply = [axis, is_logarithm](const DenseInputs& in) -> std::optional<Dense> {
                       return softmax_over(*in[0], axis, is_logarithm);
                     },
                     .axes = {axis},
                     .reduces = {},
                     .is_softmax = true,
                     .is_logarithm = is_logarithm});
    }
  }
  for (KnownFunction& one : all) {
    const std::optional<Dense> again = one.apply(inputs);
    if (again && is_nearly(*again, *result)) return std::move(one);
  }
  return {};
}

}  // namespace sonde
