#include "read/index/index_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace sonde {

namespace fs = std::filesystem;

fs::path index_directory() {
  const auto absolute = [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && value[0] == '/' ? fs::path(value) : fs::path();
  };
  if (const fs::path cache = absolute("XDG_CACHE_HOME"); !cache.empty()) return cache / "sonde" / "index";
  const fs::path home = absolute("HOME");
  return home.empty() ? fs::path() : home / ".cache" / "sonde" / "index";
}

fs::path index_file_of(const fs::path& real_dump) {
  const fs::path directory = index_directory();
  if (directory.empty()) return {};
  // Part of the dump's name, for people; the hash identifies the dump.
  std::string name = real_dump.filename().string().substr(0, 40);
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < 0x21 || c > 0x7e; }, '_');
  const std::string& path = real_dump.native();
  return directory / fmt::format("{}-{:016x}.sqlite", name, XXH3_64bits(path.data(), path.size()));
}

}  // namespace sonde
