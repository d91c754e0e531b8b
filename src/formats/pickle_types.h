// The types of elements that pickles of PyTorch name. A global is `module`, line feed, `name`.
#pragma once

#include <string_view>

#include "sonde/dtype.h"

namespace sonde::pickle {

// `torch.float32` and the short names of some; undefined: it is none of them.
DType dtype_of_global(std::string_view global);
// `torch.FloatStorage`; undefined: it is none of them, or untyped.
DType dtype_of_storage(std::string_view global);
bool is_untyped(std::string_view global);

}  // namespace sonde::pickle
