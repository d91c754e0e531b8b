#include "read/catalog/recorded_settings.h"

#include <algorithm>
#include <system_error>

namespace sonde {

namespace fs = std::filesystem;

DumpSettings recorded_settings(const fs::path& metadata) {
  DumpSettings settings;
  std::error_code error;
  for (fs::directory_iterator at(metadata, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != ".json") continue;
    if (const std::optional<Plan> plan = read_recorded_plan(at->path())) settings.add(settings_of(*plan));
  }
  return settings;
}

std::optional<Plan> recorded_plan(const fs::path& metadata, const std::string& config_file) {
  const fs::path file(config_file);  // the journal is untrusted: the file must stay inside
  if (file.empty() || file.is_absolute() || std::ranges::find(file, "..") != file.end()) return std::nullopt;
  return read_recorded_plan(metadata / file);
}

}  // namespace sonde
