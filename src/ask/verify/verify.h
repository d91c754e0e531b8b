// Verify: lists complete and missing parts of a dump, with reasons. Changes nothing (complete_dump.h does).
//
//   Result<Verification> report = verify_dump("/tmp/dump");
//   for (const Issue& issue : report->issues) ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "contract/command_answers.h"
#include "sonde/result.h"

namespace sonde {

struct VerifyOptions {
  // Also reads every tensor, and compares its values with the recorded statistics and hashes.
  bool hashes = false;
  std::optional<std::uint32_t> rank;
  // Also compares the collectives that the ranks called.
  bool ranks = false;
};

// Fails like open_catalog.
Result<Verification> verify_dump(const std::filesystem::path& path, const VerifyOptions& options = {});

}  // namespace sonde
