// The state of reading a dump, for a line on a terminal.
#pragma once

#include <cstdint>
#include <functional>

#include "read/catalog/catalog.h"

namespace sonde {

// Called when a step of a dump without a journal has been read, with the number of these steps so far and of all.
// From any thread, one call at a time.
using ReadProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

Result<Catalog> open_catalog(const std::filesystem::path& path, const ReadProgress& progress);

}  // namespace sonde
