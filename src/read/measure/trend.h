// The statistics of a tensor from step to step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "read/catalog/catalog.h"

namespace sonde {

// Those of KnownStatistics.
std::vector<std::string_view> statistic_names();
std::optional<double> statistic(const KnownStatistics& statistics, std::string_view name);

struct TrendStep {
  const CatalogRank* rank = nullptr;
  const CatalogStep* step = nullptr;
  std::optional<KnownStatistics> statistics;  // empty: it is not in this step, or could not be read
};
// The first tensor in each of these steps with the name `op_name` and this slot. Unknown statistics are computed from
// files; `problems` gets the files that could not be read.
struct TrendSource {
  const CatalogRank* rank;
  const CatalogStep* step;
};
std::vector<TrendStep> trend_of(const std::vector<TrendSource>& steps, std::string_view op_name, bool is_input,
                                std::uint32_t slot, std::vector<std::string>& problems);

}  // namespace sonde
