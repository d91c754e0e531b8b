#include "catalog/dump_settings.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

#include "config/diagnostics.h"
#include "config/json.h"

namespace sonde {
namespace {

constexpr std::uintmax_t kLongestConfiguration = 4 << 20;  // bytes

std::optional<JsonValue> read_json(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) > kLongestConfiguration)
    return {};
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Diagnostics ignored;
  return parse_json(text, ignored);
}

const JsonValue* member(const JsonValue& object, std::string_view object_name, std::string_view key) {
  const JsonMember* inner = object.find(object_name);
  const JsonMember* found = inner == nullptr ? nullptr : inner->value.find(key);
  return found == nullptr ? nullptr : &found->value;
}

}  // namespace

DumpSettings settings_of(const CatalogRank& rank) {
  DumpSettings settings;
  std::error_code error;
  for (std::filesystem::directory_iterator at(rank.metadata, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() != ".json") continue;
    const std::optional<JsonValue> root = read_json(at->path());
    if (!root) continue;
    // 1 and 2 are the overflow modes of single units; MindSpore 1.2 has an object of its own for them.
    for (const std::string_view object : {"common_dump_settings", "async_dump_settings"}) {
      const JsonValue* mode = member(*root, object, "op_debug_mode");
      settings.only_overflows = settings.only_overflows || (mode != nullptr && mode->number >= 1 && mode->number <= 3);
    }
    const JsonValue* debug = member(*root, "dump", "dump_debug");
    settings.only_overflows = settings.only_overflows || (debug != nullptr && debug->text == "on");
    const JsonValue* inputs = member(*root, "sonde_settings", "inputs");
    settings.inputs_after = settings.inputs_after || (inputs != nullptr && inputs->text == "after");
    const JsonValue* reread = member(*root, "sonde_settings", "reread");
    settings.reread = settings.reread || (reread != nullptr && reread->boolean);
  }
  return settings;
}

}  // namespace sonde
