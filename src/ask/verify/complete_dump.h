// Complete: rebuilds missing or truncated files from the journal of a dump: statistic.csv, execution order, history,
// graphs. Adds tensor files to the journal if a kill prevented that. Never changes tensor files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ask/verify/verify.h"
#include "sonde/result.h"

namespace sonde {

struct Completion {
  std::vector<std::filesystem::path> made;     // files that were missing, or lacked rows
  std::vector<std::filesystem::path> trimmed;  // files whose last row was incomplete
  std::vector<std::filesystem::path> entered;  // tensor files that the journal now names
  std::vector<std::filesystem::path> kept;     // tables with rows that are not in the journal: left unchanged
  std::vector<std::string> notes;
};

// Calling it again changes nothing. Fails with `busy` while a run records there, and like open_catalog.
Result<Completion> complete_dump(const std::filesystem::path& dump, std::optional<std::uint32_t> rank = {});

// True if complete_dump can mend some of the issues.
bool can_complete(const Verification& report);

}  // namespace sonde
