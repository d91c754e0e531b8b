// What the attribute of an FFTS+ dump says: one operator cut into slices for several threads.
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

// `attribute`: the text of a container's first attribute. Nothing where it does not tell of automatic slicing, or is no
// JSON at all (people's own tags). Fails with `invalid_argument` where it does, but not for this thread.
Result<std::optional<ThreadSlices>> thread_slices(std::string_view attribute, std::optional<std::size_t> thread);

// Of a file name: the field before the last.
std::optional<std::size_t> thread_of_name(std::string_view name);

}  // namespace sonde
