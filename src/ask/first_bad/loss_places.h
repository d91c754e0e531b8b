// The start of backward, for all steps of a run: line, file and type of the op that makes the loss.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <tuple>

#include "read/catalog/catalog.h"

namespace sonde {

using LossPlaces = std::set<std::tuple<std::string_view, std::uint32_t, std::string_view>>;
LossPlaces loss_places(const CatalogRank& rank);

}  // namespace sonde
