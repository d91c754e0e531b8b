// The bounds that the statistics of a tensor give for what they do not say: mean|x| from l2norm, the share of zeros from
// the extremes. docs/watch.md, "What statistics decide", states each with its proof in a line.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "ask/watch/watch_conditions.h"
#include "ask/watch/watch_values.h"
#include "sonde/known_statistics.h"

namespace sonde {

struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// The statistics that a dump has of a tensor without NaN and infinities; each number may be off by `rounding`, as a part of it.
struct KnownNumbers {
  std::optional<double> max, min, mean, l2norm;
  std::optional<std::uint64_t> count, positive_count, negative_count, zero_count;
  double rounding = 0;
};

// Of max, min, mean, abs_mean, sd, max_min, zero_percentage.
Bounds bounds_of(Quantity quantity, const KnownNumbers& known);
// The percentage of the elements in the range.
Bounds range_bounds(const ValueRange& range, const KnownNumbers& known);
// Of mean|current - previous| / (mean|previous| + epsilon); both have the same number of elements.
Bounds update_bounds(const KnownNumbers& current, const KnownNumbers& previous, double epsilon);
// True if some element must have changed by more than the tolerance.
bool must_differ(const KnownNumbers& current, const KnownNumbers& previous, const Tolerance& tolerance);

}  // namespace sonde
