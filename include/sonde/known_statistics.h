// KnownStatistics: the statistics of one tensor that a dump contains.
#pragma once

#include <cstdint>
#include <optional>

#include "sonde/export.h"

namespace sonde {

// Statistics as the dump has them: a column nobody recorded is absent. Definitions: docs/format.md, "Statistics".
struct KnownStatistics {
  std::optional<double> max, min, avg, l2norm;
  std::optional<std::uint64_t> count, nan_count, positive_inf_count, negative_inf_count;
  std::optional<std::uint64_t> positive_count, negative_count, zero_count;

  // False when a NaN or an infinity is known of, by its count or because a value shows it.
  SONDE_EXPORT bool all_finite() const;
};

}  // namespace sonde
