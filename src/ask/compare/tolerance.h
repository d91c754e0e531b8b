// The bound for the error of a correct op's output: from its own rounding and from the differences between
// its inputs. The rules, with their reasons: docs/compare.md, "How much may differ".
#pragma once

#include <cstdint>
#include <span>

#include "read/measure/tensor_difference.h"
#include "read/operators/op_family.h"
#include "sonde/tolerances.h"

namespace sonde {

// If the relative error of an input exceeds this, the output may be anything.
inline constexpr double kMaxExplainable = 0.01;
// Of optimizers of two styles: a smaller part of an update is not seen.
inline constexpr double kUnseenOfUpdate = 0.02;

// Bounds of the root mean square and of the largest error.
struct Bound {
  double rms = 0, max = 0;
};

struct Allowance {
  Bound rounding;
  Bound propagated;
  bool anything = false;  // inputs differ so much, or the op is so abrupt, that the output cannot be judged
  double epsilon = 0;     // of the coarser type of the two
  double reduction = 1;   // number of terms in the sum of an element
  Bound total() const { return {rounding.rms + propagated.rms, rounding.max + propagated.max}; }
  void widen(const Allowance& other);  // to the larger bound of the two
};

// One float input of the op, paired with the golden one.
struct InputError {
  const TensorDifference* difference = nullptr;
  std::uint32_t slot = 0;
};

// Spacing of the type's numbers at 1; 0 for types without fractions.
double epsilon_of(DType dtype);
// The distance of the smallest numbers of the type. Small gradients of float16 are rounded to it; other types have no use for
// so small numbers: 0.
double least_step_of(DType dtype);
// Of float16 or coarser.
bool is_half(double spacing);
// The rounding of a tensor in which nothing more is seen. Eight spacings of a half type would be 1 to 6 %: an error.
double rounding_of(double spacing);
// The spacing at 1 of the coarser of the two types.
double coarser_spacing(const TensorDifference& difference);

// For output `slot` of an op. `seen`: the largest relative error before it, if its inputs are unknown.
Allowance allowance_of(std::string_view op_type, OpKind kind, std::uint32_t slot, const TensorDifference& output,
                       std::span<const InputError> inputs, double seen, const Tolerances& options);

// For a tensor that no op of the step made: a parameter or data. `seen` as above, from earlier steps.
Bound allowance_of_parameter(const TensorDifference& difference, double seen, const Tolerances& options);

// The relative error that elements have in common: of their size or of their mean. By statistics it is all that shows.
double common_error(const TensorDifference& difference);

// The part of an error of each element that may be left in common_error(): each row of the longest dimension rounds by
// itself, and by statistics the extremes are single elements. `shape`: of both.
double left_by_chance(const TensorDifference& difference, std::span<const std::int64_t> shape);

// The element that differs most is far smaller than the tensor's size, as scores behind a mask of large numbers are: the
// relative error of the whole tensor hides that this element is another number.
bool hides_its_error(const TensorDifference& difference);

// The least common_error() that is more than rounding in a tensor of a half type, if its op or one before it is an
// addition of one side. It shrinks with the number of rows: the errors of a row may have one cause, those of many rows
// cancel in a norm or a mean.
double least_error_of_addition(const TensorDifference& difference);

// For a tensor that both read: the rounding of its type.
bool is_beyond(const TensorDifference& difference, const Bound& bound);

}  // namespace sonde
