#include "ask/compare/tolerance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

constexpr double kSides = 4;    // both sides round, and not always in the luckiest way
constexpr double kSpread = 8;   // the largest of many errors over their root mean square
constexpr double kUnseen = 10;  // an error over what statistics show of it
constexpr double kFloat32Epsilon = 0x1p-23;

double elements_of(std::span<const std::int64_t> shape) {
  double count = 1;
  for (const std::int64_t size : shape) count *= static_cast<double>(std::max<std::int64_t>(size, 1));
  return count;
}

// The inputs whose products an output adds up.
struct Factors {
  const TensorDifference* a = nullptr;
  const TensorDifference* b = nullptr;
};

Factors factors_of(const std::string& type, std::uint32_t slot, std::span<const InputError> inputs) {
  const auto at = [&](std::uint32_t wanted) -> const TensorDifference* {
    for (const InputError& input : inputs) {
      if (input.slot == wanted) return input.difference;
    }
    return nullptr;
  };
  if (work_of(type) == OpWork::convolution_gradient) {
    constexpr std::array<std::uint32_t, 3> kOther = {2, 1, 0};
    if (slot < 2) return {at(0), at(kOther[slot])};
    return {at(0), nullptr};
  }
  // The two largest: an input that is small beside them is a bias or a scale.
  Factors factors;
  double most = 0, second = 0;
  for (const InputError& input : inputs) {
    const double size = elements_of(input.difference->shape);
    if (size > most) {
      factors.b = factors.a;
      second = most;
      factors.a = input.difference;
      most = size;
    } else if (size > second) {
      factors.b = input.difference;
      second = size;
    }
  }
  return factors;
}

double reduction_length(const std::string& type, OpKind kind, const TensorDifference& output, const Factors& factors) {
  if (factors.a == nullptr) return 1;
  const double a = elements_of(factors.a->shape), out = elements_of(output.shape);
  if (kind == OpKind::normalization) {
    const Dims& shape = factors.a->shape;
    if (is_batch_norm(type) && shape.size() > 1) {
      return std::max(1.0, a / static_cast<double>(std::max<std::int64_t>(shape[1], 1)));
    }
    return shape.empty() ? 1 : static_cast<double>(std::max<std::int64_t>(shape.back(), 1));
  }
  if (kind == OpKind::contraction && factors.b != nullptr) {
    if (is_forward_convolution(type)) {  // the weight has the summed elements, for each output channel
      for (const TensorDifference* factor : {factors.b, factors.a}) {
        const Dims& shape = factor->shape;
        const Dims& gives = output.shape;
        if (shape.size() < 3 || gives.size() < 2 || (shape[0] != gives[1] && shape[0] != gives.back())) continue;
        return std::max(1.0, elements_of(shape) / static_cast<double>(std::max<std::int64_t>(shape[0], 1)));
      }
    }
    // Each dimension of a product is in two of the three tensors; the summed ones are in the factors only.
    return std::max(1.0, std::sqrt(a / out * elements_of(factors.b->shape)));
  }
  return std::max(1.0, a / out);
}

double largest_rms(std::span<const InputError> inputs) {
  double rms = 0;
  for (const InputError& input : inputs) rms = std::max(rms, input.difference->rms);
  return rms;
}

// As for independent errors: they grow with the square root of their number.
double rounding_rms(const std::string& type, OpKind kind, const TensorDifference& output, const Factors& factors,
                    std::span<const InputError> inputs, double epsilon, double reduction) {
  const double sums = std::min(epsilon, kFloat32Epsilon);  // half types are added up in float
  const double root = std::sqrt(reduction);
  switch (kind) {
    case OpKind::copy:
    case OpKind::exact:
    case OpKind::selection:
      return output.dtype == output.golden_dtype ? 0 : epsilon * output.rms;
    case OpKind::cast:
      return epsilon * output.rms;
    case OpKind::elementwise:
      return 2 * epsilon *
             std::max(output.rms,
                      work_of(type) == OpWork::multiply ? 0 : std::min(largest_rms(inputs), 1e3 * output.rms));
    case OpKind::transcendental:
      return 8 * epsilon * output.rms;
    case OpKind::contraction: {
      const double scale = factors.a != nullptr && factors.b != nullptr ? root * factors.a->rms * factors.b->rms
                           : factors.a != nullptr                       ? root * factors.a->rms
                                                                        : 0;
      return sums * root * std::max(scale, output.rms) + epsilon * output.rms;
    }
    case OpKind::reduction: {
      const double in = factors.a != nullptr ? factors.a->rms : 0;
      const double scale = is_mean(type) ? in / root : root * in;
      return sums * root * std::max(scale, output.rms) + epsilon * output.rms;
    }
    case OpKind::normalization: {
      const double spread = factors.a != nullptr && factors.a->deviation > 0
                                ? std::clamp(factors.a->rms / factors.a->deviation, 1.0, 1e4)
                                : 1;
      return (sums * (2 + std::pow(reduction, 0.25)) * spread + epsilon) * output.rms;
    }
    default:
      return 16 * epsilon * std::max(output.rms, std::min(largest_rms(inputs), 1e3 * output.rms));
  }
}

Bound spread(double rms, const TensorDifference& output) {
  const double peak = output.rms > 0 ? std::max(1.0, output.max_size / output.rms) : 1;
  return {rms, kSpread * rms * peak};
}

// Adds the precision lost in a statistic's text.
void add_digits(Bound& bound, const TensorDifference& output) {
  if (output.text_digits == 0) return;
  bound.rms += output.text_digits * output.rms * 2;
  bound.max += output.text_digits * std::max(output.max_size, output.rms) * 2;
}

double propagated_rms(const std::string& type, OpKind kind, const TensorDifference& output, const Factors& factors,
                      std::span<const InputError> inputs, double relative, double reduction) {
  double sum = 0, scale_in = 0;
  for (const InputError& input : inputs) {
    sum += input.difference->rms_error;
    scale_in = std::max(scale_in, input.difference->rms);
  }
  switch (kind) {
    case OpKind::contraction: {
      if (factors.a == nullptr) return 0;
      if (factors.b == nullptr) return reduction * factors.a->rms_error;
      // |ΔA·B| <= |ΔA|·|B|, of the Frobenius norms.
      const double products =
          reduction * (factors.a->rms_error * factors.b->rms + factors.a->rms * factors.b->rms_error);
      return products + sum;
    }
    case OpKind::reduction: {
      const double of = factors.a != nullptr ? factors.a->rms_error : sum;
      return (is_mean(type) ? 2 : reduction) * of + 4 * relative * output.rms;
    }
    case OpKind::elementwise:
      return std::max(2 * sum, 10 * relative * output.rms);
    case OpKind::cast:
      return sum;
    case OpKind::transcendental:
      return 2 * sum + output.rms * (2 * relative + 2 * sum);
    case OpKind::normalization: {
      const double wide = factors.a != nullptr && factors.a->deviation > 0
                              ? std::clamp(factors.a->rms / factors.a->deviation, 1.0, 1e6)
                              : 1;
      return (10 * wide * relative + 2 * sum) * output.rms + 2 * sum;
    }
    default:
      return 100 * relative * std::max(output.rms, scale_in);
  }
}

// Statistics give a lower bound of an error.
TensorDifference at_most(const TensorDifference& of) {
  TensorDifference out = of;
  if (of.by != ComparedBy::statistics || of.equal) return out;
  const double spacing = coarser_spacing(of);
  out.rms_error = std::max(kUnseen * of.rms_error, kSides * spacing * of.rms);
  out.max_error = std::max({kUnseen * of.max_error, kSpread * out.rms_error, kSides * spacing * of.max_size});
  return out;
}

// Slots of the op's divisors; none: it does not divide.
bool divides_by(const std::string& type, std::uint32_t slot) {
  const OpWork work = work_of(single_type_of_plain(type));
  if (work == OpWork::divide) return slot == 1;
  if (work == OpWork::add_quotient) return slot == 2;
  return (work == OpWork::reciprocal || work == OpWork::reciprocal_root) && slot == 0;
}

// The largest relative error of an element that the op divides by; infinite where one may be 0.
double error_of_divisors(const std::string& type, std::span<const InputError> inputs) {
  double worst = 0;
  for (const InputError& input : inputs) {
    const TensorDifference& of = *input.difference;
    if (!divides_by(type, input.slot) || of.equal) continue;
    const bool by_values = of.by == ComparedBy::values;
    const double low = by_values ? of.sums.golden_min : of.golden_statistics.min.value_or(0);
    const double high = by_values ? of.sums.golden_max : of.golden_statistics.max.value_or(0);
    const double least = low > 0 ? low : high < 0 ? -high : 0;
    worst = least > 0 ? std::max(worst, of.max_error / least) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

Bound given(const TensorDifference& of, const Tolerances& tolerances) {
  return {tolerances.of(of.rms), tolerances.of(of.max_size)};
}

// The index of a maximum, or a truncating cast: whole numbers from differing fractions.
bool makes_integers(std::span<const InputError> inputs, double epsilon) {
  return epsilon == 0 && std::ranges::any_of(inputs, [](const InputError& input) {
           const TensorDifference& of = *input.difference;
           return !of.equal && coarser_spacing(of) > 0;
         });
}

// The bits of another type, as they are in memory: a digit's difference in one is any difference in the other.
bool shows_bits(std::string_view type, std::span<const InputError> inputs, const TensorDifference& output) {
  if (inputs.empty() || !shows_memory(type)) return false;
  return inputs.front().difference->dtype != output.dtype;
}

}  // namespace

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::complex128:
      return 0x1p-52;
    case DType::float32:
    case DType::complex64:
      return kFloat32Epsilon;
    case DType::float16:
    case DType::complex32:
      return 0x1p-10;
    case DType::bfloat16:
      return 0x1p-7;
    case DType::float8_e4m3fn:
    case DType::float8_e4m3fnuz:
      return 0x1p-3;
    case DType::float8_e5m2:
    case DType::float8_e5m2fnuz:
      return 0x1p-2;
    case DType::float8_e8m0fnu:
      return 1;
    default:
      return 0;
  }
}

double least_step_of(DType dtype) { return dtype == DType::float16 || dtype == DType::complex32 ? 0x1p-24 : 0; }

bool is_half(double spacing) { return spacing >= epsilon_of(DType::float16); }

double rounding_of(double spacing) { return (is_half(spacing) ? 1 : 8) * spacing; }

double coarser_spacing(const TensorDifference& difference) {
  return std::max(epsilon_of(difference.dtype), epsilon_of(difference.golden_dtype));
}

void Allowance::widen(const Allowance& other) {
  const auto widen_bound = [](Bound& bound, const Bound& by) {
    bound = {std::max(bound.rms, by.rms), std::max(bound.max, by.max)};
  };
  widen_bound(rounding, other.rounding);
  widen_bound(propagated, other.propagated);
  anything = anything || other.anything;
}

Allowance allowance_of(std::string_view op_type, OpKind kind, std::uint32_t slot, const TensorDifference& output,
                       std::span<const InputError> known, double seen, const Tolerances& options) {
  const std::string type = shared_type(op_type);
  std::vector<TensorDifference> most;
  std::vector<InputError> inputs;
  most.reserve(known.size());
  for (const InputError& input : known) inputs.push_back({&most.emplace_back(at_most(*input.difference)), input.slot});
  Allowance allowance;
  allowance.epsilon = coarser_spacing(output);
  const Factors factors = factors_of(type, slot, inputs);
  allowance.reduction = reduction_length(type, kind, output, factors);
  const double own = kSides * rounding_rms(type, kind, output, factors, inputs, allowance.epsilon, allowance.reduction);
  allowance.rounding = options.given() ? given(output, options) : spread(own, output);
  add_digits(allowance.rounding, output);

  double relative = inputs.empty() ? seen : 0;
  double largest = 0;
  bool differ = inputs.empty() && seen > 0;
  for (const InputError& input : inputs) {
    relative = std::max(relative, input.difference->relative());
    largest = std::max(largest, input.difference->max_error);
    differ = differ || !input.difference->equal;
  }
  relative = std::max(relative, error_of_divisors(type, inputs));
  const bool abrupt = kind == OpKind::selection || kind == OpKind::random || kind == OpKind::collective ||
                      makes_integers(inputs, allowance.epsilon);
  allowance.anything = relative >= kMaxExplainable || ((abrupt || shows_bits(type, inputs, output)) && differ);
  if ((kind == OpKind::copy || kind == OpKind::exact) && !inputs.empty()) {
    allowance.propagated = {largest, largest};  // each element was an element before
    return allowance;
  }
  if (!differ) return allowance;
  allowance.propagated =
      spread(kSides * propagated_rms(type, kind, output, factors, inputs, relative, allowance.reduction), output);
  return allowance;
}

Bound allowance_of_parameter(const TensorDifference& difference, double seen, const Tolerances& options) {
  if (options.given()) return given(difference, options);
  const bool one_type = difference.dtype == difference.golden_dtype;
  const double epsilon = coarser_spacing(difference);
  Bound bound = spread(((one_type ? 4 : 1) * epsilon + 16 * seen) * difference.rms, difference);
  if (seen >= kMaxExplainable)
    bound = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  add_digits(bound, difference);
  return bound;
}

bool hides_its_error(const TensorDifference& difference) {
  constexpr double kFarSmaller = 1e-3;
  // Sixteen spacings: a small probability of bfloat16 may be off by several per cent.
  const double least = std::max(kMaxExplainable, 16 * coarser_spacing(difference));
  const auto is_another = [&](double mine, double golden) {
    const double size = std::max(std::fabs(mine), std::fabs(golden)), error = std::fabs(mine - golden);
    return error > 0 && size <= kFarSmaller * difference.rms && error >= least * size;
  };
  if (difference.by == ComparedBy::values) return is_another(difference.worst_value, difference.worst_golden);
  if (difference.by != ComparedBy::statistics) return false;
  const KnownStatistics &mine = difference.statistics, &golden = difference.golden_statistics;
  return (mine.max && golden.max && is_another(*mine.max, *golden.max)) ||
         (mine.min && golden.min && is_another(*mine.min, *golden.min));
}

double common_error(const TensorDifference& difference) {
  if (difference.by != ComparedBy::values) return difference.relative();
  const PairSums& sums = difference.sums;
  if (sums.golden_squares <= 0) return difference.relative();
  const double scale = std::abs(sums.products / sums.golden_squares - 1);
  const double size = std::abs(std::sqrt(sums.squares / sums.golden_squares) - 1);
  const double mean =
      std::abs(sums.sum - sums.golden_sum) / std::sqrt(static_cast<double>(sums.finite_pairs) * sums.golden_squares);
  return std::max({scale, size, mean});
}

double left_by_chance(const TensorDifference& difference, std::span<const std::int64_t> shape) {
  std::int64_t longest = 1;
  for (const std::int64_t size : shape) longest = std::max(longest, size);
  const double elements = elements_of(shape);
  // The more elements there are, the less the extremes add to the error of all.
  const bool has_extremes = difference.by == ComparedBy::statistics && difference.rms > 0;
  const double peak = has_extremes ? std::max(1.0, difference.max_size / difference.rms) : 1;
  return std::max(std::sqrt(static_cast<double>(longest) / elements), peak / std::sqrt(elements));
}

double least_error_of_addition(const TensorDifference& difference) {
  const double rounding = 4 * coarser_spacing(difference);
  return rounding * std::min(1.0, left_by_chance(difference, difference.golden_shape));
}

bool is_beyond(const TensorDifference& difference, const Bound& bound) {
  if (difference.by == ComparedBy::nothing || difference.equal) return false;
  if (difference.by == ComparedBy::checksum) return true;
  if (difference.different_non_finite > 0) return true;
  // Statistics of the same elements, added up in another order.
  constexpr double kAnotherOrder = 1e-13;
  if (difference.by == ComparedBy::statistics && difference.max_error <= kAnotherOrder * difference.rms) return false;
  return difference.rms_error > bound.rms || difference.max_error > bound.max;
}

}  // namespace sonde
