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

// Fills `plan` from a MindSpore 2.x file, as its newest version reads it. Where `diagnostics` ends
// up without an error the plan is complete. What Sonde does differently: docs/compatibility.md.
void read_mindspore(const JsonValue& root, Plan& plan, Diagnostics& diagnostics);

// Fills `settings` (and `plan.saved_data`, for "graph") from the object `sonde_settings`.
void read_sonde_settings(const JsonMember& member, Plan& plan, Diagnostics& diagnostics);

}  // namespace sonde
