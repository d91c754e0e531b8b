// The factor between two tensors: "4.000 times the golden gradient".
#pragma once

#include <optional>
#include <string>

#include "read/measure/tensor_difference.h"

namespace sonde {

// If one number times the golden tensor gives the target's, to 0.05 %: by values exactly, by statistics if all that show
// it do so. Not if that number is 1. A single element has a factor if it is a whole number, or 1 by one.
std::optional<double> factor_between(const TensorDifference& difference);

// "4.000 times", from statistics "about 4.000 times".
std::string factor_text(double factor, const TensorDifference& difference);

}  // namespace sonde
