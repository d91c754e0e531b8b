#include "ask/relations/dense_math.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace sonde {
namespace {

constexpr std::size_t kMostTerms = 1 << 24;  // of a product

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

}  // namespace

Dense with_shape(const Dense& x, std::vector<std::int64_t> shape) { return {std::move(shape), x.values}; }

std::vector<std::size_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * static_cast<std::size_t>(shape[i]);
  return strides;
}

std::optional<Dense> both_by(const Dense& a, const Dense& b, const std::function<double(double, double)>& function) {
  const auto shape = common_shape(a, b);
  if (!shape || elements_of(*shape) > kMostElementsAgain) return std::nullopt;
  Dense result{*shape, std::vector<double>(elements_of(*shape))};
  for (std::size_t i = 0; i < result.values.size(); ++i)
    result.values[i] = function(a.values[place_in(a, *shape, i)], b.values[place_in(b, *shape, i)]);
  return result;
}

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

}  // namespace sonde
