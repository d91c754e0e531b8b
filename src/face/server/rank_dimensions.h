// The place of each rank in the dimensions of work that ranks share: `dp 0, tp 1`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "contract/served_answers.h"
#include "face/server/snapshot.h"
#include "sonde/result.h"

namespace sonde::server {

// Those that a placement shows: "Shard(0) of (16, 8) on tp=2, from (8, 0)" is place 1 of `tp`. Only a dimension that alone
// divides an axis shows a place.
std::vector<RankDimension> dimensions_in(std::string_view placement);

// By the places of the ranks in the frame. Looks at the first step of each.
Result<std::vector<std::vector<RankDimension>>> rank_dimensions(Snapshot& snapshot);

}  // namespace sonde::server
