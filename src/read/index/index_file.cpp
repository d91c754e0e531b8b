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

namespace {

// Part of the name, for people; the hash identifies the path.
std::string name_in_cache(const std::string& shown, const fs::path& path, std::string_view end) {
  std::string name = shown.substr(0, 40);
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < 0x21 || c > 0x7e; }, '_');
  return fmt::format("{}-{:016x}{}", name, XXH3_64bits(path.native().data(), path.native().size()), end);
}

fs::path in_cache(const fs::path& real_dump, std::string_view end) {
  const fs::path directory = index_directory();
  return directory.empty() ? fs::path() : directory / name_in_cache(real_dump.filename(), real_dump, end);
}

}  // namespace

fs::path index_file_of(const fs::path& real_dump) { return in_cache(real_dump, ".sqlite"); }
fs::path rank_indices_of(const fs::path& real_dump) { return in_cache(real_dump, ".ranks"); }

fs::path rank_index_file_of(const fs::path& real_dump, const fs::path& metadata) {
  const fs::path directory = rank_indices_of(real_dump);
  return directory.empty() ? fs::path()
                           : directory / name_in_cache(metadata.parent_path().filename(), metadata, ".sqlite");
}

}  // namespace sonde
