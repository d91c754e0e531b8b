// The first and the last entry of a run in the journal: what was asked for, and what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/plan.h"
#include "journal/record.h"
#include "journal/totals.h"
#include "sonde/result.h"

namespace sonde {

// One compact object. `config_file` is relative to the metadata directory.
std::string run_json(const Plan& plan, const RunInfo& run, const std::string& config_file, std::uint64_t started_us);

// What the first entry calls it, and back; another word is `tensor`, as where the plan says nothing.
std::string_view word_of(SavedData saved);
SavedData saved_data_of(std::string_view word);

// One compact object: the totals, and the error that stopped the run if there was one.
std::string end_json(const Totals& totals, const std::optional<Error>& error, std::uint64_t ended_us);

}  // namespace sonde
