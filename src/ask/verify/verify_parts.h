// Verify rank by rank: processes that share the work write what they found, each of some ranks, and one of them joins it. The
// answer is that of verify_dump, whoever looked at which rank.
//
//   for (const RankInDump& rank : ranks_of_dump(dump)->ranks) verify_into(rank, options, parts);   // each anywhere
//   Result<JoinedParts> joined = join_parts(dump, options, parts);
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "ask/verify/verify.h"
#include "read/catalog/rank_part_files.h"
#include "sonde/result.h"

namespace sonde {

// Verifies a rank, and writes a file into the directory `parts`, which is made.
Status verify_into(const RankInDump& rank, const VerifyOptions& options, const std::filesystem::path& parts);

// The directories of ranks that `parts` lacks: they have no part of these options, of this version and of the rank as it is now.
Result<std::vector<std::string>> ranks_without_part(const std::filesystem::path& dump, const VerifyOptions& options,
                                                    const std::filesystem::path& parts);

struct JoinedParts {
  Verification report;
  std::size_t verified_here = 0;  // ranks without a part
};

// Fails like verify_dump.
Result<JoinedParts> join_parts(const std::filesystem::path& dump, const VerifyOptions& options,
                               const std::filesystem::path& parts);

}  // namespace sonde
