// Whether a condition fires, by what is known of a tensor. No file is touched here.
#pragma once

#include <optional>
#include <span>

#include "watch/watch_values.h"
#include "watch/watchpoints.h"

namespace sonde {

// What a condition may ask of a tensor; empty: not known (yet).
struct WatchFacts {
  std::optional<bool> has_nan, has_inf, overflowed;
  std::optional<std::uint64_t> count, zero_count;
  std::optional<double> max, min, mean, abs_mean, sd;
  // How far off a value may be, relative to itself: a table tells six digits.
  double rounding = 0;
  const ValueSummary* values = nullptr;  // and the ranges its `inside` belongs to
  std::span<const ValueRange> ranges;
  const PairSummary* pair = nullptr;  // and the tolerances its `all_close` belongs to
  std::span<const Tolerance> tolerances;
};
WatchFacts facts_of(const KnownStatistics& statistics, bool exact);
WatchFacts facts_of(const ValueSummary& values, std::span<const ValueRange> ranges);

// What has to be read for these conditions.
std::optional<ValueRange> range_of(const WatchCondition& condition);
Tolerance tolerance_of(const WatchCondition& condition);

struct Judgement {
  enum class Kind { quiet, hit, error, unknown } kind = Kind::quiet;
  std::uint32_t error_code = 0;
  std::vector<WatchParameter> parameters;
};
// `unknown`: facts are missing, or too coarse to tell on which side of a threshold a value is; with `final_word` what is
// there has to do, and only missing ones are unknown.
Judgement judge(const WatchCondition& condition, const WatchFacts& facts, bool final_word);

}  // namespace sonde
