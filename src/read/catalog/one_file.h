// A file of one tensor as a dump.
#pragma once

#include <filesystem>

#include "read/catalog/catalog.h"

namespace sonde {

// A dump of one op that wrote it. The file is not opened.
Catalog catalog_of_file(const std::filesystem::path& path);

}  // namespace sonde
