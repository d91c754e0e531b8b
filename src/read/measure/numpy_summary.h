// The largest, the smallest and the mean element of a tensor, computed and written as NumPy does.
#pragma once

#include <string>

#include "sonde/tensor.h"

namespace sonde {

struct NumpySummary {
  std::string shape;           // "(2, 3)", "(4,)"
  std::string dtype;           // "float32"
  std::string max, min, mean;  // of the tensor's own type; NaN where one is
};

// `view`: dense, in C order, with at least one element, of a type that NumPy has. For a complex tensor only its dtype
// is set.
NumpySummary numpy_summary(const TensorView& view);

}  // namespace sonde
