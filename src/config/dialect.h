// The dialects of configuration: one function each, from the JSON of a file to a Plan.
#pragma once

#include <span>
#include <string_view>

#include "config/json.h"
#include "sonde/plan.h"

namespace sonde {
class Diagnostics;

// A key of a configuration file and the object it belongs to ("" for the top of the file).
struct KnownKey {
  std::string_view object;
  std::string_view key;
};
std::span<const KnownKey> known_keys();

// A warning for each member that `object` ("" for the top of the file) does not know: MindSpore
// ignores them in silence. Names the nearest known key, or the object the key belongs to.
void warn_of_unknown_keys(const JsonValue& value, std::string_view object, Diagnostics& diagnostics);

// Fills `plan` from a MindSpore 2.x file, as its newest version reads it. Where `diagnostics` ends
// up without an error the plan is complete. What Sonde does differently: docs/compatibility.md.
void read_mindspore(const JsonValue& root, Plan& plan, Diagnostics& diagnostics);

// Fills `settings` (and `plan.saved_data`, for "graph") from the object `sonde_settings`.
void read_sonde_settings(const JsonMember& member, Plan& plan, Diagnostics& diagnostics);

}  // namespace sonde
