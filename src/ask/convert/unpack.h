// Unpacking: a dump with packs becomes the tree that it would be without them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sonde/result.h"

namespace sonde {

struct Unpacked {
  std::uint64_t packs = 0, files = 0, bytes = 0;  // tensor files, equal ones under several names; bytes on the disk
  std::vector<std::string> lost;                  // each names the file, and says why
};

// Copies the dump to `out`, which must not exist. The tensors in its packs become files of their own, and the journal
// names these. A tensor that cannot be read does not prevent the others.
Result<Unpacked> unpack(const std::filesystem::path& dump, const std::filesystem::path& out);

}  // namespace sonde
