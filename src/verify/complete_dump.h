// Complete: rebuilds files from the journal of a dump, where they are missing or truncated: statistic.csv, execution
// order, history, graphs. Enters tensor files that a kill left outside the journal. Tensor files are never touched.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sonde/result.h"
#include "verify/verify.h"

namespace sonde {

struct Completion {
  std::vector<std::filesystem::path> made;     // files that were missing, or lacked rows
  std::vector<std::filesystem::path> trimmed;  // files whose last row broke off
  std::vector<std::filesystem::path> entered;  // tensor files that the journal now names
  std::vector<std::filesystem::path> kept;     // tables with rows that are not in the journal: left unchanged
  std::vector<std::string> notes;
};

// Calling it again changes nothing. Fails with `busy` while a run records there, and like open_catalog.
Result<Completion> complete_dump(const std::filesystem::path& dump, std::optional<std::uint32_t> rank = {});

// Some of what was found wrong is what complete_dump mends.
bool can_complete(const VerifyReport& report);

}  // namespace sonde
