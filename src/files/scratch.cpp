#include "files/scratch.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

namespace sonde {

namespace fs = std::filesystem;

Scratch::Scratch() {
  std::error_code error;  // TMPDIR may name a missing directory
  for (const fs::path& place : {fs::temp_directory_path(error), fs::path("/tmp")}) {
    std::string pattern = (place / "sonde-run-XXXXXX").string();
    if (place.empty() || mkdtemp(pattern.data()) == nullptr) continue;
    path_ = pattern;
    return;
  }
}

Scratch::~Scratch() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace sonde
