// The two ways to read one rank of a dump: from its journal, or from what MindSpore leaves behind.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "analysis/catalog.h"

namespace sonde {

// What part of a rank to take; everything when empty.
struct CatalogFilter {
  std::optional<std::uint32_t> graph;
  std::optional<std::uint64_t> iteration;

  bool takes(StepId step) const {
    return (!graph || *graph == step.graph) && (!iteration || *iteration == step.iteration);
  }
};

// `rank.directory` is set; `rank.rank` becomes what the journal says. Damage inside the journal becomes a problem of the catalog.
Status read_rank_journal(const std::filesystem::path& journal, const CatalogFilter& filter, CatalogRank& rank,
                         Catalog& catalog);

// `steps`: directories below `rank.directory` that hold tensor files or tables. Each of `constants` that stands beside
// some of them joins the first of those.
struct StepPlace;
void read_rank_tree(const std::vector<StepPlace>& steps, const std::vector<std::filesystem::path>& constants,
                    CatalogRank& rank, Catalog& catalog);

// `places`: directories with a dump.json, all of one rank, below `rank.directory`.
struct MsprobePlace;
void read_msprobe_rank(const std::vector<MsprobePlace>& places, CatalogRank& rank, Catalog& catalog);

// `places`: directories with tensors in files of free names, all of one rank, below `rank.directory`.
struct LoosePlace;
void read_loose_rank(const std::vector<LoosePlace>& places, CatalogRank& rank, Catalog& catalog);

}  // namespace sonde
