// All known keys, and the message about an unknown one.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "contract/setting_keys.h"
#include "contract/settings.h"
#include "plan/config/diagnostics.h"
#include "plan/config/dialect.h"
#include "plan/config/nearest.h"

namespace sonde {
namespace {

constexpr std::string_view kDump = "dump";  // CANN's acl.json

std::string place_of(const KnownKey& known) {
  return known.object.empty() ? "the top of the file" : std::string(known.object);
}

// Keys of another system's files are not suggested.
bool is_mindspores(std::string_view object) {
  return object.empty() || object == keys::common_dump_settings || object == keys::e2e_dump_settings;
}

std::string advice_on(std::string_view object, const std::string& key) {
  std::vector<std::string_view> here;
  for (const KnownKey& known : kKnownKeys) {
    if (known.object == object) here.push_back(known.key);
  }
  // A correctly spelled key of another object is a better suggestion than a misspelled key of this one.
  for (const KnownKey& known : kKnownKeys) {
    const bool elsewhere = known.object != object && is_mindspores(known.object) && is_mindspores(object);
    if (elsewhere && known.key == key) return fmt::format("it belongs to {}", place_of(known));
  }
  const std::string best = nearest(key, here).front();
  if (is_close(key, best)) return fmt::format("did you mean '{}'?", best);
  for (const KnownKey& known : kKnownKeys) {
    if (known.object == object || !is_mindspores(known.object) || !is_mindspores(object)) continue;
    if (!is_close(key, known.key)) continue;
    return fmt::format("did you mean '{}' of {}?", known.key, place_of(known));
  }
  return fmt::format("the nearest known key is '{}'", best);
}

}  // namespace

std::span<const KnownKey> known_keys() { return kKnownKeys; }

void warn_of_unknown_keys(const JsonValue& value, std::string_view object, Diagnostics& diagnostics) {
  std::size_t unknown = 0;
  const std::string_view original = object.starts_with(kDump) ? "CANN" : "MindSpore";
  for (const JsonMember& member : value.members) {
    const bool known = std::any_of(std::begin(kKnownKeys), std::end(kKnownKeys),
                                   [&](const KnownKey& k) { return k.object == object && k.key == member.key; });
    if (known) continue;
    const std::string shown = in_quotes(member.key);
    const std::string name = shown.substr(1, shown.size() - 2);
    const std::string path = object.empty() ? name : fmt::format("{}.{}", object, name);
    if (object.empty() && member.key == keys::async_dump_settings) {
      diagnostics.warning(member.line, path,
                          "ignored: MindSpore 1.2 read it; its op_debug_mode belongs to common_dump_settings now");
    } else if (++unknown <= Diagnostics::kMost) {
      diagnostics.warning(member.line, path,
                          fmt::format("unknown key, ignored as {} does; {}", original, advice_on(object, member.key)));
    } else {
      diagnostics.warning(member.line, path, fmt::format("unknown key, ignored as {} does", original));
    }
  }
}

}  // namespace sonde
