// The copies of configurations that a dump keeps, for what its journal does not say.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/dump_settings.h"
#include "config/plan.h"

namespace sonde {

// Of the configuration files in a directory .dump_metadata that can be read; nothing where there is none.
DumpSettings recorded_settings(const std::filesystem::path& metadata);

// Of one of them, by the `config_file` of a run (journal/run_json.h): its plan, if it can be read.
std::optional<Plan> recorded_plan(const std::filesystem::path& metadata, const std::string& config_file);

}  // namespace sonde
