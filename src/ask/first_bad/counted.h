// How much of a tensor is bad, in numbers: statistics of a tensor with a NaN are NaN and say nothing.
#pragma once

#include <optional>
#include <string>

#include "read/catalog/catalog.h"

namespace sonde {

struct CountedBad {
  std::string text;  // "1 of 4 NaN, rest -0.61 … 0.32"; empty: all is finite, or nobody counted
  std::optional<double> finite_min, finite_max;  // of the rest, where the dump has the values
};

CountedBad count_bad(const CatalogRank& rank, const CatalogTensor& tensor,
                     const std::optional<KnownStatistics>& statistics);

}  // namespace sonde
