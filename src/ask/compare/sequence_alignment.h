// Which ops of two sequences belong together, if their order counts.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace sonde {

using IndexPairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // of the target, golden

// The longest sequence of the pairs, whose first ones rise, in which the second ones rise, too.
IndexPairs longest_rising(const IndexPairs& pairs);

// The alignment with the greatest sum of likenesses; those of likeness 0 do not belong together. Empty: there are too
// many for an alignment.
IndexPairs best_alignment(const std::vector<std::uint32_t>& rows, const std::vector<std::uint32_t>& columns,
                          const std::function<float(std::uint32_t, std::uint32_t)>& likeness);

}  // namespace sonde
