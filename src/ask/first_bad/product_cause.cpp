// Ops that sum products: matrix products and convolutions. The bad element is recomputed in double precision.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ask/first_bad/bad_cause.h"

namespace sonde {
namespace {

struct MatrixProduct {
  double sum = 0;
  double largest_term = 0, a = 0, b = 0;  // the largest term and its factors
  double largest_a = 0, largest_b = 0;
  std::uint64_t terms = 0;

  void add(double x, double y) {
    const double term = x * y;
    sum += term;
    ++terms;
    largest_a = std::max(largest_a, std::fabs(x));
    largest_b = std::max(largest_b, std::fabs(y));
    if (std::fabs(term) < largest_term) return;
    largest_term = std::fabs(term);
    a = x;
    b = y;
  }
};

// `b` is (…, k, n), or (…, n, k) if `transposed`.
std::optional<MatrixProduct> matrix_product(const SlotValues& a, const SlotValues& b, bool transposed,
                                            const Position& place) {
  const std::size_t a_rank = a.shape().size(), b_rank = b.shape().size();
  if (a_rank < 1 || b_rank < 2 || place.empty()) return std::nullopt;
  const std::int64_t k_size = a.shape().back();
  if (b.shape()[transposed ? b_rank - 1 : b_rank - 2] != k_size) return std::nullopt;
  Position at_a = a.broadcast(place), at_b = b.broadcast(place);
  if (at_a.size() >= 2 && place.size() >= 2) at_a[a_rank - 2] = place[place.size() - 2];
  MatrixProduct product;
  for (std::int64_t k = 0; k < k_size; ++k) {
    at_a[a_rank - 1] = k;
    at_b[b_rank - 2] = transposed ? place.back() : k;
    at_b[b_rank - 1] = transposed ? k : place.back();
    product.add(a.at(at_a), b.at(at_b));
  }
  return product;
}

std::int64_t at_or(const std::vector<std::int64_t>& list, std::size_t i, std::int64_t otherwise) {
  if (list.empty()) return otherwise;
  return list[std::min(i, list.size() - 1)];
}

// a * b + c; empty on overflow: shapes and attributes come from files, and may be anything.
std::optional<std::int64_t> multiply_add(std::int64_t a, std::int64_t b, std::int64_t c) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || __builtin_add_overflow(result, c, &result)) return std::nullopt;
  return result;
}

// (N, C, …) with kernels (O, C / groups, …).
std::optional<MatrixProduct> convolution(OpValues& values, const SlotValues& x, const SlotValues& w,
                                         const Position& place) {
  const std::size_t spatial = w.shape().size() - 2;
  if (w.shape().size() < 3 || x.shape().size() != spatial + 2 || place.size() != spatial + 2) return std::nullopt;
  if (values.number("transposed").value_or(0) != 0 || values.integers("stride").empty()) return std::nullopt;
  const std::vector<std::int64_t> stride = values.integers("stride"), padding = values.integers("padding"),
                                  dilation = values.integers("dilation");
  const double groups = values.number("groups").value_or(1);
  if (!(groups >= 1 && groups <= static_cast<double>(w.shape()[0])) || padding.empty()) return std::nullopt;
  const std::int64_t group = place[1] / (w.shape()[0] / static_cast<std::int64_t>(groups));
  MatrixProduct product;
  Position at_w(w.shape().size(), 0), at_x(x.shape().size(), 0);
  at_w[0] = place[1];
  at_x[0] = place[0];
  for (;;) {
    const auto channel = multiply_add(group, w.shape()[1], at_w[1]);
    if (!channel) return std::nullopt;
    at_x[1] = *channel;
    bool inside = at_x[1] < x.shape()[1];
    for (std::size_t i = 0; i < spatial; ++i) {
      auto at = multiply_add(at_or(padding, i, 0), -1, 0);
      if (at) at = multiply_add(place[i + 2], at_or(stride, i, 1), *at);
      if (at) at = multiply_add(at_w[i + 2], at_or(dilation, i, 1), *at);
      if (!at) return std::nullopt;
      at_x[i + 2] = *at;
      inside = inside && *at >= 0 && *at < x.shape()[i + 2];
    }
    if (inside) product.add(x.at(at_x), w.at(at_w));
    std::size_t i = at_w.size();
    while (--i > 0 && ++at_w[i] >= w.shape()[i]) at_w[i] = 0;
    if (i == 0) return product;
  }
}

struct ProductFactors {
  std::uint32_t a = 0, b = 1;
  std::optional<std::uint32_t> bias;  // of the inputs it has
  bool transposed = false, is_convolution = false;
  double alpha = 1, beta = 1;  // what the sum and the bias are multiplied by; a bias times 0 is none
};

std::optional<ProductFactors> factors_by_work(const OpValues& values) {
  ProductFactors factors;
  switch (values.work()) {
    case OpWork::linear:
      factors.transposed = true;
      factors.bias = 2;
      return factors;
    case OpWork::add_matrix_product:
      return ProductFactors{.a = 1, .b = 2, .bias = 0};
    case OpWork::convolution:
      factors.is_convolution = true;
      factors.bias = 2;
      return factors;
    case OpWork::batch_product:
      factors.transposed = values.number("transpose_b").value_or(0) != 0;
      if (values.number("transpose_a").value_or(0) != 0) return std::nullopt;
      return factors;
    case OpWork::matrix_product:
      return factors;
    default:
      return std::nullopt;
  }
}

std::optional<ProductFactors> factors_of(const OpValues& values) {
  std::optional<ProductFactors> factors = factors_by_work(values);
  if (!factors) return factors;
  if (values.work() == OpWork::add_matrix_product) {
    factors->alpha = values.number("alpha").value_or(1);
    factors->beta = values.number("beta").value_or(1);
  }
  if (factors->beta == 0 || (factors->bias && values.input(*factors->bias) == nullptr)) factors->bias.reset();
  return factors;
}

// " times 0.5, with the bias": what is done with the sum of products.
std::string rest_of(const ProductFactors& factors) {
  std::string text;
  if (factors.alpha != 1) text += fmt::format(", times {}", number_text(factors.alpha));
  if (factors.bias)
    text += factors.beta == 1 ? ", with the bias" : fmt::format(", with {} times the bias", number_text(factors.beta));
  return text;
}

// Of the finite elements, without their sign.
std::optional<double> largest_in(OpValues& values, const CatalogTensor& tensor) {
  const auto statistics = values.statistics(tensor);
  if (!statistics || !statistics->max || !statistics->min) return std::nullopt;
  const double largest = std::max(std::fabs(*statistics->max), std::fabs(*statistics->min));
  return std::isfinite(largest) ? std::optional(largest) : std::nullopt;
}

// From the largest elements alone, if the product itself cannot be computed.
bool explain_bound(OpValues& values, const ProductFactors& factors, Cause& cause) {
  const CatalogTensor* a = values.input(factors.a);
  const CatalogTensor* b = values.input(factors.b);
  if (a == nullptr || b == nullptr) return false;
  const auto largest_a = largest_in(values, *a), largest_b = largest_in(values, *b);
  const auto bias = factors.bias ? largest_in(values, *values.input(*factors.bias)) : std::optional(0.0);
  if (!largest_a || !largest_b || !bias) return false;
  std::int64_t terms = 1;
  if (factors.is_convolution && b->has_shape && !b->shape.empty()) {
    for (std::size_t i = 1; i < b->shape.size(); ++i) {
      if (__builtin_mul_overflow(terms, b->shape[i], &terms)) return false;
    }
  } else if (a->has_shape && !a->shape.empty()) {
    terms = a->shape.back();
  }
  const double bound =
      std::fabs(factors.alpha) * *largest_a * *largest_b * static_cast<double>(std::max<std::int64_t>(terms, 1)) +
      std::fabs(factors.beta) * *bias;
  cause.numbers.push_back({"largest input.a", *largest_a});
  cause.numbers.push_back({"largest input.b", *largest_b});
  cause.evidence.push_back(fmt::format("largest elements {} (2^{:.1f}) and {} (2^{:.1f}), {}{}: at most {}",
                                       number_text(*largest_a), std::log2(*largest_a), number_text(*largest_b),
                                       std::log2(*largest_b),
                                       terms == 1 ? "one product each" : fmt::format("{} products are added", terms),
                                       rest_of(factors), number_text(bound)));
  if (*bias != 0) cause.evidence.push_back(fmt::format("the largest of the bias {}", number_text(*bias)));
  const std::string products =
      fmt::format("products of elements up to {} and {}", number_text(*largest_a), number_text(*largest_b));
  cause.why = (terms == 1 ? products : fmt::format("up to {} {} are added", terms, products)) + rest_of(factors);
  if (overflows(values.output_type(), bound)) {
    explain_overflow(values.output_type(), bound, cause, Exactness::bound);
  } else if (largest_of(values.output_type()) > 0) {
    cause.impossible = true;
    cause.why +=
        fmt::format(", which is at most {}: {} can represent it", number_text(bound), info(values.output_type()).lower);
  }
  return true;
}

}  // namespace

bool product_cause(OpValues& values, BadKind bad, Cause& cause) {
  const std::optional<ProductFactors> factors = factors_of(values);
  if (!factors) return false;
  const SlotValues* a = values.input_values(factors->a);
  const SlotValues* b = values.input_values(factors->b);
  const SlotValues* output = values.output_values();
  if (a == nullptr || b == nullptr || output == nullptr || a->elements() == 0 || b->elements() == 0) {
    return explain_bound(values, *factors, cause);
  }
  const auto places = output->find(bad == BadKind::nan ? SlotValues::Want::nan : SlotValues::Want::inf, 1);
  if (places.empty()) return false;
  const Position& place = places[0];
  std::optional<MatrixProduct> product =
      factors->is_convolution ? convolution(values, *a, *b, place) : matrix_product(*a, *b, factors->transposed, place);
  if (!product) return explain_bound(values, *factors, cause);
  const SlotValues* bias = factors->bias ? values.input_values(*factors->bias) : nullptr;
  if (factors->bias && bias == nullptr) return explain_bound(values, *factors, cause);
  product->sum *= factors->alpha;
  if (bias != nullptr) {
    product->sum += factors->beta * (factors->is_convolution ? bias->at({place[1]}) : bias->broadcast_at(place));
  }
  const std::string where = position_text(place);
  cause.evidence.push_back(fmt::format("output.{}{}: {} products, the largest {} * {} = {}", values.output()->slot,
                                       where, product->terms, number_text(product->a), number_text(product->b),
                                       number_text(product->a * product->b)));
  cause.numbers.push_back({"largest of the first factor", product->largest_a});
  cause.numbers.push_back({"largest of the second factor", product->largest_b});
  const std::string rest = rest_of(*factors);
  cause.why = fmt::format("the sum of {} products at {}{}{} is {}", product->terms, where, rest,
                          rest.empty() ? "" : ",", number_text(product->sum));
  if (std::isnan(product->sum) || std::isinf(product->sum)) {
    cause.explained = true;
    cause.why = fmt::format("among the {} products at {} are infinities that cancel, or 0 times infinity",
                            product->terms, where);
  } else if (overflows(values.output_type(), product->sum)) {
    explain_overflow(values.output_type(), product->sum, cause);
  } else if (overflows(values.output_type(), product->largest_term)) {
    cause.why += fmt::format(", and the largest of them {}", number_text(product->largest_term));
    explain_overflow(values.output_type(), product->largest_term, cause);
  } else {
    cause.impossible = true;
    cause.why += fmt::format(", which {} can represent", info(values.output_type()).lower);
  }
  return true;
}

}  // namespace sonde
