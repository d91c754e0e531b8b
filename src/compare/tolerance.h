// How far an op's output may be from the golden one when nobody is wrong: by its own rounding, and by what its inputs
// already were apart. The rules, with the reasons for them: docs/compare.md, "How much may differ".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "measure/tensor_difference.h"
#include "operators/op_family.h"

namespace sonde {

// Relative error of an input beyond which an output may be anything.
inline constexpr double kMaxExplainable = 0.01;

// Bounds of the root mean square and of the largest error.
struct Bound {
  double rms = 0, max = 0;
};

struct Allowance {
  Bound rounding;
  Bound propagated;
  bool anything = false;  // inputs are so far apart, or the op so abrupt, that nothing can be said of the output
  double epsilon = 0;     // of the coarser type of the two
  double reduction = 1;   // how many terms went into an element
  Bound total() const { return {rounding.rms + propagated.rms, rounding.max + propagated.max}; }
};

// One float input of the op, paired with the golden one.
struct InputError {
  const TensorDifference* difference = nullptr;
  std::uint32_t slot = 0;
};

struct ToleranceOptions {
  std::optional<double> rtol, atol;  // in place of the rounding bound: atol + rtol·|golden|
};

// Spacing of the type's numbers at 1; 0 of types without fractions.
double epsilon_of(DType dtype);

// Of output `slot` of an op. `seen`: the largest relative error before it, where its inputs are not known.
Allowance allowance_of(std::string_view op_type, OpKind kind, std::uint32_t slot, const TensorDifference& output,
                       std::span<const InputError> inputs, double seen, const ToleranceOptions& options);

// Of a tensor that no op of the step made: a parameter or data. `seen` as above, of earlier steps.
Bound allowance_of_parameter(const TensorDifference& difference, double seen, const ToleranceOptions& options);

// A tensor read by both: what its type's rounding explains.
bool is_beyond(const TensorDifference& difference, const Bound& bound);

}  // namespace sonde
