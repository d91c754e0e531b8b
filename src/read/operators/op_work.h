// The work of an operator under every name that frameworks give it: `div`, `RealDiv` and `true_divide` divide.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace sonde {

enum class OpWork : std::uint8_t {
  other,
  // --- element by element
  add,
  subtract,
  subtract_from,  // the second input minus the first
  multiply,
  divide,
  divide_or_zero,  // 0 where the divisor is 0
  add_product,
  add_quotient,
  interpolate,
  reciprocal,
  square,
  power,
  root,
  reciprocal_root,
  exponential,
  exponential_of_two,
  logarithm,
  logarithm_of_more,  // of 1 and the input
  round,
  cast,
  dropout,
  // --- over many elements
  sum,
  mean,
  spread,  // a variance or its root
  norm,    // the root of the sum of squares
  norm_of_power,
  log_of_sum,
  log_softmax,
  squared_error,
  ctc_loss,
  attention,
  // --- products of matrices
  linear,
  matrix_product,
  batch_product,  // of matrices that may be transposed
  add_matrix_product,
  convolution,
  convolution_gradient,
};

// `plain`: bare_type() of an operator, or its single type.
OpWork work_of(std::string_view plain);

// Names that are separated by one space.
using TypeNames = std::unordered_set<std::string_view>;
TypeNames type_names(std::string_view text);

}  // namespace sonde
