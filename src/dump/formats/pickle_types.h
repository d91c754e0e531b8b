// The element types in pickles of PyTorch. A global is `module`, line feed, `name`.
#pragma once

#include <string_view>

#include "sonde/dtype.h"

namespace sonde::pickle {

// `torch.float32` and the short names of some types; `undefined` for any other text.
DType dtype_of_global(std::string_view global);
// `torch.FloatStorage`; `undefined` for any other text, and for untyped storages.
DType dtype_of_storage(std::string_view global);
bool is_untyped(std::string_view global);

}  // namespace sonde::pickle
