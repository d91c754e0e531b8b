#include "dump/run_files/private_text.h"

#include <filesystem>

#include "ground/base/json.h"

namespace sonde {
namespace {

void clear_paths(Json& json) {
  if (json.is_string() && json.get_ref<const std::string&>().starts_with('/')) json = "";
  if (!json.is_structured()) return;
  for (Json& item : json) clear_paths(item);
}

}  // namespace

std::string config_copy(const Plan& plan) {
  if (!plan.sonde.is_private || plan.source_text.empty()) return plan.source_text;
  Json json = json_of_text(plan.source_text);
  if (json.is_discarded()) return {};
  clear_paths(json);
  return text_of_json(json, 2) + "\n";
}

std::string note_text(const Plan& plan, std::string text) {
  const std::string path = plan.path.string();
  if (!plan.sonde.is_private || path.size() < 2) return text;
  for (std::size_t at = text.find(path); at != std::string::npos; at = text.find(path, at)) text.erase(at, path.size());
  return text;
}

Site without_paths(Site site) {
  for (SourceLine& line : site.trace) line.file = std::filesystem::path(line.file).filename().string();
  return site;
}

}  // namespace sonde
