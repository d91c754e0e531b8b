// Verify: lists complete and missing parts of a dump, with reasons. Changes nothing (complete_dump.h does).
//
//   Result<Verification> report = verify_dump("/tmp/dump");
//   for (const Issue& issue : report->issues) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "contract/command_answers.h"
#include "read/catalog/find_dumps.h"
#include "sonde/result.h"

namespace sonde {

struct VerifyOptions {
  // Also reads every tensor, and compares its values with the recorded statistics and hashes.
  bool hashes = false;
  std::optional<std::uint32_t> rank;
  // Also compares the collectives that the ranks called.
  bool ranks = false;
};

// Fails like open_catalog. Holds one rank after the other in memory, where the dump can be read so.
Result<Verification> verify_dump(const std::filesystem::path& path, const VerifyOptions& options = {});

// The same with the catalog of the whole dump in memory.
Result<Verification> verify_whole(const std::filesystem::path& path, const VerifyOptions& options);

// A rank by itself (verify_parts.h joins them), without what `ranks` asks.
struct VerifiedAlone {
  Verification report;       // without VerifiedRank::dump; of a rank that is not asked for the first issues alone
  std::size_t problems = 0;  // the first issues: of a whole dump those of all ranks come before the others
};
VerifiedAlone verify_rank(const JournalPlace& place, const VerifyOptions& options);
VerifiedAlone verify_rank(const Catalog& one, const VerifyOptions& options);  // open_rank() of it

// Problems of reading a dump, as issues.
void add_problems(const std::vector<CatalogProblem>& problems, Verification& report);

}  // namespace sonde
