// The first and the last entry of a run in the journal: its settings, and its results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/journal/record.h"
#include "dump/journal/totals.h"
#include "plan/config/dump_settings.h"
#include "plan/config/plan.h"
#include "sonde/result.h"

namespace sonde {

// One compact object. `config_file` is relative to the metadata directory.
std::string run_json(const Plan& plan, const RunInfo& run, const std::string& config_file, std::uint64_t started_us);

// The facts that a reader takes from the first entry. Empty, or 0: not given.
struct RunHeader {
  std::string sonde_version, host, command, config_file;
  std::uint32_t rank = 0, world_size = 0;
  std::uint64_t pid = 0, started_us = 0;
  std::optional<std::size_t> mends;  // the run that it completes (docs/format.md, "Journal")
  // From the plan, in the plan's own words.
  std::string layout, version, net_name, saved_data;
  std::optional<std::vector<Category>> statistic_category;
  std::optional<bool> low_precision;
  std::optional<SourceLines> source_lines;
  std::optional<DumpSettings> settings;  // op_debug_mode, inputs, reread
};
std::optional<RunHeader> parse_run_json(std::string_view text);  // nullopt: the text is not a JSON object

// The word for it in the first entry, and the reverse. An unknown word means `tensor`, the plan's default.
std::string_view word_of(SavedData saved);
SavedData saved_data_of(std::string_view word);

// One compact object: the totals, and the error that stopped the run if there was one.
std::string end_json(const Totals& totals, const std::optional<Error>& error, std::uint64_t ended_us);

// The facts that a reader takes from it; empty if the text is not a JSON object.
struct RunEnd {
  std::uint64_t ended_us = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;
  std::optional<std::string> error;
};
RunEnd parse_end_json(std::string_view text);

}  // namespace sonde
