// Verify rank by rank: processes that share the work write what they found, each of some ranks, and one of them joins it. The
// answer is that of verify_dump, whoever looked at which rank.
//
//   for (const RankToVerify& rank : *ranks_to_verify(dump)) verify_into(rank, options, parts);   // each anywhere
//   Result<JoinedParts> joined = join_parts(dump, options, parts);
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "ask/verify/verify.h"
#include "sonde/result.h"

namespace sonde {

struct RankToVerify {
  std::string directory;  // with its metadata, relative to the dump
  JournalPlace place;
};

// All of a dump. None: it cannot be read rank by rank. Fails with `not_found`.
Result<std::vector<RankToVerify>> ranks_to_verify(const std::filesystem::path& dump);

// Verifies a rank, and writes a file into the directory `parts`, which is made.
Status verify_into(const RankToVerify& rank, const VerifyOptions& options, const std::filesystem::path& parts);

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
