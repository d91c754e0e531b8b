// The copies of configurations in a dump, for settings that its journal does not contain.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plan/config/dump_settings.h"
#include "plan/config/plan.h"

namespace sonde {

// From the readable configuration files in a directory .dump_metadata; empty if there is none.
DumpSettings recorded_settings(const std::filesystem::path& metadata);

// From one of them, by the `config_file` of a run (journal/run_json.h): its plan, if it can be read.
std::optional<Plan> recorded_plan(const std::filesystem::path& metadata, const std::string& config_file);

}  // namespace sonde
