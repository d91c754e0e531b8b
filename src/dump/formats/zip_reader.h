// ZipEntries: the places of the uncompressed files in a zip archive, or in a Zip64 archive.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sonde/result.h"

namespace sonde {

struct ZipEntry {
  std::string_view name;  // a view of the archive's bytes
  std::uint64_t header = 0, bytes = 0;
  bool is_stored = true;  // false: compressed or encrypted
};

bool is_zip(std::string_view start);

// `archive`: the whole file; entries and names point into it. Only the directory at its end is read.
Result<std::vector<ZipEntry>> read_zip(std::string_view archive);

// The bytes of an entry, in place. Fails with `unsupported` if they are compressed or encrypted.
Result<std::string_view> bytes_of(std::string_view archive, const ZipEntry& entry);

}  // namespace sonde
