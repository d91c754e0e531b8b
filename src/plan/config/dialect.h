// The dialects of configuration: one function each, from the JSON of a file to a Plan.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "plan/config/json.h"
#include "plan/config/known_key.h"
#include "plan/config/plan.h"

namespace sonde {
class Diagnostics;

std::span<const KnownKey> known_keys();

// Warns for each unknown member of `object` ("" for the top of the file): MindSpore
// silently ignores them. Names the nearest known key, or the object the key belongs to.
void warn_of_unknown_keys(const JsonValue& value, std::string_view object, Diagnostics& diagnostics);

// The settings named in the object `sonde_settings`; the dialect chooses the others.
struct OwnSettings {
  bool layout = false, version = false;
  std::optional<SavedData> saved_data;  // instead of what the dialect says: graph, summary
};
// Fills plan.sonde from it, if it exists.
OwnSettings read_sonde_settings(const JsonValue& root, Plan& plan, Diagnostics& diagnostics);

// Each fills `plan` from a file of its dialect. If `diagnostics` has no error at the end, the plan is complete. Where
// Sonde differs: docs/compatibility.md.
void read_mindspore(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics);
void read_mindspore_1_2(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics);
void read_mindspore_1_0(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics);
void read_acl(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics);
void read_torchair(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics);

// Reads the bytes of a configuration file, up to the maximum size of one.
Result<std::string> read_configuration_file(const std::filesystem::path& file);

}  // namespace sonde
