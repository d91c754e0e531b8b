#include "ground/files/scratch.h"

#include <array>
#include <cstdlib>
#include <string>
#include <system_error>

#include "ground/files/safe_path.h"

namespace sonde {

namespace fs = std::filesystem;
namespace {

// The path without links: who owns one of them could turn it later. Empty if there is no such directory.
fs::path real_path(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  return error ? fs::path() : real;
}

}  // namespace

Scratch::Scratch() {
  std::error_code error;  // TMPDIR may name a missing directory
  const std::array places = {real_path(fs::temp_directory_path(error)), real_path("/tmp")};
  // Programs load and obey its files, so another user must not be able to put a directory of theirs into its place.
  for (const bool must_be_safe : {true, false}) {
    for (const fs::path& place : places) {
      if (place.empty() || (must_be_safe && !only_ours_to_exchange(place))) continue;
      std::string pattern = (place / "sonde-run-XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr) continue;
      path_ = pattern;
      return;
    }
  }
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace sonde
