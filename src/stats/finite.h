// all_finite: whether a tensor holds neither NaN nor infinity. Reads its bytes once, without taking statistics.
#pragma once

#include "sonde/tensor.h"

namespace sonde {

// Types without such values (integers, bool) are finite without a look. Complex: both parts count.
bool all_finite(const TensorView& view);

// Whether elements of this type can be NaN or infinite.
bool can_be_non_finite(DType dtype);

}  // namespace sonde
