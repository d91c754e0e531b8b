// all_finite: true if a tensor has neither NaN nor infinity. Reads its bytes once, without taking statistics.
#pragma once

#include "sonde/tensor.h"

namespace sonde {

// Types without such values (integers, bool) are finite without a test. Complex: both parts count.
bool all_finite(const TensorView& view);

// True if elements of this type can be NaN or infinite.
bool can_be_non_finite(DType dtype);

}  // namespace sonde
