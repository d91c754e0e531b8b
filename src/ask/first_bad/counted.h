// How much of a tensor is bad, in numbers: statistics of a tensor with a NaN are NaN and say nothing.
#pragma once

#include <optional>
#include <string>

#include "read/catalog/catalog.h"

namespace sonde {

// "1 of 4 NaN, rest -0.61 … 0.32"; the rest where the dump has the values. Empty: all is finite, or nobody counted.
std::string counted_text(const CatalogRank& rank, const CatalogTensor& tensor,
                         const std::optional<KnownStatistics>& statistics);

}  // namespace sonde
