// first_bad rank by rank: processes that share the work write what the search of a rank found, and one of them joins it. The
// answer is that of first_bad() on the whole dump, whoever searched which rank.
//
//   for (const RankInDump& rank : found->ranks) search_into(*found, rank, options, parts);   // each anywhere
//   Result<SearchedParts> parts = SearchedParts::read(dump, options, parts);
//   FirstBad report = std::move(*parts).first_bad();
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "ask/first_bad/first_bad.h"
#include "ask/first_bad/searched_ranks.h"
#include "read/catalog/rank_part_files.h"
#include "sonde/result.h"

namespace sonde {

// Searches a rank, in its index where it has one, and writes a file into the directory `parts`. FirstBadOptions::source is not
// used.
Status search_into(const RanksOfDump& dump, const RankInDump& rank, const FirstBadOptions& options,
                   const std::filesystem::path& parts);

// The directories of ranks that `parts` lacks: they have no part of these options, of this version and of the rank as it is now.
Result<std::vector<std::string>> ranks_not_searched(const std::filesystem::path& dump, const FirstBadOptions& options,
                                                    const std::filesystem::path& parts);

class SearchedParts {
 public:
  // Ranks without a part are searched here. Fails with `not_found`, also where the dump cannot be read rank by rank.
  static Result<SearchedParts> read(const std::filesystem::path& dump, const FirstBadOptions& options,
                                    const std::filesystem::path& parts);

  // Ranks, runs and steps, without operators: as far as an answer needs them.
  const Catalog& catalog() const { return *catalog_; }
  std::size_t searched_here() const { return searched_here_; }
  // Once. Afterwards the catalog has the operators that were read again of the rank that was bad first.
  FirstBad first_bad();

 private:
  SearchedParts() = default;

  FirstBadOptions options_;
  std::filesystem::path root_;
  std::unique_ptr<Catalog> catalog_ = std::make_unique<Catalog>();
  std::vector<RankInDump> ranks_;  // as those of the catalog
  std::vector<RankFacts> facts_;   // the same
  Searches searches_;              // of those that are asked for
  std::size_t searched_here_ = 0;
};

}  // namespace sonde
