// Parses the attribute of an FFTS+ dump: one operator cut into slices for several threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sonde/result.h"

namespace sonde {

// The shape of each tensor's slice, for one thread.
struct ThreadSlices {
  std::vector<std::vector<std::int64_t>> inputs, outputs;
};

// `attribute`: the text of a container's first attribute. Empty if it does not describe automatic slicing, or is not
// JSON (people's own tags). Fails with `invalid_argument` if it does, but not for this thread.
Result<std::optional<ThreadSlices>> thread_slices(std::string_view attribute, std::optional<std::size_t> thread);

// From a file name: the field before the last.
std::optional<std::size_t> thread_of_name(std::string_view name);

}  // namespace sonde
